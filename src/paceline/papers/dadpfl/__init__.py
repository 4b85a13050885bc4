"""DA-DPFL, TNNLS."""
