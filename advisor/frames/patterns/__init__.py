"""Sequences of operators that cost more than they must: one finder a file, one frame for all that they find."""
