"""Tests of edits need LibCST, which comes with the extra ``dev``."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("libcst") else ["test_*.py"]
