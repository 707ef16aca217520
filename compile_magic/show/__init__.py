"""From a report to blocks of words: what to say, in which order, before anything is decided about how it looks."""
