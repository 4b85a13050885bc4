"""No One Idles, ICML 2023."""
