"""Count what a run moves and computes, and the least time that takes on this device."""
