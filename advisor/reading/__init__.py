"""Bytes to columns: containers, chunks, the event schema of every dialect, repair."""
