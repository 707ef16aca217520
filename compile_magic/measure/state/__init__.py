"""Remember what a cell can reach, see what it writes, and put it back."""
