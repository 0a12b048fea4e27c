"""Rules over a trace: verdicts, claims on the time, places in the source."""
