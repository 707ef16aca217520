"""One run of explained calls: which callables, what is recorded, and what is put back in the process."""
