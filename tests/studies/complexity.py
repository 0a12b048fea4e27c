"""Blocks of too many branches, by radon: ``python tests/studies/complexity.py advisor`` exits with 1 where there are any."""

from __future__ import annotations

import sys
from pathlib import Path

from radon.complexity import cc_visit

MOST = 20
ALLOWED = {
    # One loop over all events of the graph, with its branches in the order of their frequency: a call a branch takes twice as long.
    ("advisor/replay/simulate.py", "_node_by_node"),
}


def main(folders: list[str]) -> int:
    """Print every block over ``MOST`` that is not allowed; and an allowance that nothing needs any more."""
    heavy = {
        (path.as_posix(), block.name): block.complexity
        for folder in folders
        for path in sorted(Path(folder).rglob("*.py"))
        for block in cc_visit(path.read_text(encoding="utf-8"))
        if block.complexity > MOST
    }
    for (path, name), branches in heavy.items():
        if (path, name) not in ALLOWED:
            print(f"{path}: {name}: {branches} branches, at most {MOST}")
    for path, name in ALLOWED - heavy.keys():
        print(f"{path}: {name} needs no allowance any more")
    return 1 if heavy.keys() ^ ALLOWED else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
