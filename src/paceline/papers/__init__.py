"""The papers' tables and figures, computed anew: one function each, the paper's numbers beside ours."""
