"""The same federations with other frameworks, each in an environment of its own: ``python -m benchmarks.peers``."""
