"""Readings of large traces, kept in the user's cache folder, so that the next command starts at once.

An entry is found by the content of the trace and by the code that read it; docs/cache.md says where it lies and what it holds.
"""

from advisor.cache.store import DEFAULT_GB, Store, folder

__all__ = ["DEFAULT_GB", "Store", "folder"]
