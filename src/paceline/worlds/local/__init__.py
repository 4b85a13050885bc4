"""The same algorithms on the wall clock, on one machine: devices are processes that own their data."""
