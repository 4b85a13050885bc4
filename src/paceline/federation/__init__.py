"""The same algorithms on real machines: nodes of a federation host devices, and Flower carries the messages."""
