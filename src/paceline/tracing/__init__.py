"""A run as a trace for Perfetto and Chrome: who did what when, and who kept whom waiting."""
