"""Analysis of several ranks' traces together: who waits for whom.

Each rank is first reduced to a digest (its collectives, and what it did between them); what lies across the ranks is
worked out from the digests alone, never from the events of all ranks at once.
"""
