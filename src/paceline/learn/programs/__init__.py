"""Networks of many clients at once: read from a plain module, layer by layer."""
