"""How a cell is run: rewritten before it runs, with its targets in place, and put back afterwards. No IPython."""
