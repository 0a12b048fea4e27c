"""Performance over commits: a store that runs are added to, change points of each figure, and the check that fails on drift."""
