"""Client-level differential privacy: uploads are clipped and noised, and what that is worth is counted."""
