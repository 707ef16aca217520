"""Measure a cell: run it eager and compiled in turn, put its state back, time it, compare results."""
