"""Which method when: all of them in small federations that differ in devices, links, server and data."""
