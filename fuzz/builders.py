"""Builders of files in other formats than JSON, as the tests have them."""

from __future__ import annotations

import sys

from fuzz.seeds import ROOT

if str(ROOT / "tests") not in sys.path:
    sys.path.append(str(ROOT / "tests"))

from support.exports import nsys, rocprof, served, snapshot
from support.pftrace import content, encode, number, varint

__all__ = ["content", "encode", "nsys", "number", "rocprof", "served", "snapshot", "varint"]
