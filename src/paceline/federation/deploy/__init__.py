"""What an operator needs before a federation can begin: certificates, keys, configuration, units."""
