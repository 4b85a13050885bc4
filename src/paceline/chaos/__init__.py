"""A laboratory that puts faults into small runs and says what becomes of them."""
