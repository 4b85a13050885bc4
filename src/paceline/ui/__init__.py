"""``paceline ui``: a page of this machine that lists runs, follows them, compares them, and plans dry runs."""
