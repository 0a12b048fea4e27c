"""One trace, linked: host calls, GPU work, steps, waits, the ledger of causes, places in the source."""
