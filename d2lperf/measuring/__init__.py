"""How code is timed and judged."""
