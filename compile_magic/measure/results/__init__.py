"""Keep what a run gave, and compare it with eager and with a float64 run."""
