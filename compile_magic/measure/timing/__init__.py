"""Time lanes in turn, and say how well a ratio is known."""
