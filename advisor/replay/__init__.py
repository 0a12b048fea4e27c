"""Replay: a trace's own dependency graph, run again with a fix applied, to say what the fix is worth."""
