"""Things of a user's own."""
