"""What a researcher writes: ``paceline.compare(...)`` and the like, in a few functions and one kind of result."""
