"""JSON of every real trace, with views and samples, by two checkouts: the same bytes, or the first differing lines.

``python tests/studies/identity.py BEFORE AFTER FOLDER...``: two checkouts of this repository, and folders of traces.
"""

from __future__ import annotations

import argparse
import difflib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_CHILD = """
import hashlib, sys
from pathlib import Path
import advisor
target = Path(sys.argv[1])
for path in sys.stdin.read().split("\\n"):
    if path:
        try:
            text = advisor.analyze(advisor.read(path), views=True, samples=True).to_json()
        except advisor.TraceError as error:
            text = str(error).encode()
        (target / (hashlib.sha256(path.encode()).hexdigest()[:16] + ".json")).write_bytes(text)
"""


def write_all(checkout: Path, traces: list[Path], target: Path) -> None:
    """Write the JSON of each trace by the code of *checkout* into *target*."""
    target.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(checkout), "ADVISOR_CACHE": "off"}
    names = "\n".join(map(str, traces))
    subprocess.run(
        [sys.executable, "-c", _CHILD, target], input=names, text=True, env=environment, cwd=target, check=True
    )


def main() -> int:
    """Compare, print what differs, and exit with 1 where anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="a checkout, or a folder that --keep filled from one")
    parser.add_argument("after", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--keep", type=Path, help="where to keep the JSON of BEFORE for the next time")
    given = parser.parse_args()
    traces = sorted(path.resolve() for folder in given.folders for path in folder.rglob("*.json.gz"))
    if not traces:
        parser.error("no traces there")
    with tempfile.TemporaryDirectory() as scratch:
        before = (given.keep or Path(scratch) / "before").resolve()
        after = Path(scratch) / "after"
        if given.before.resolve() != before:
            write_all(given.before.resolve(), traces, before)
        write_all(given.after.resolve(), traces, after)
        differing = 0
        for path, left in zip(traces, sorted_like(traces, before), strict=True):
            was, now = left.read_text(), (after / left.name).read_text()
            if was != now:
                differing += 1
                lines = list(
                    difflib.unified_diff(was.splitlines(), now.splitlines(), "before", "after", lineterm="", n=0)
                )
                print(
                    f"{path.name}: {len(lines)} lines of difference", *(line[:300] for line in lines[:12]), sep="\n  "
                )
    print(f"{len(traces) - differing} of {len(traces)} traces alike, byte for byte")
    return 1 if differing else 0


def sorted_like(traces: list[Path], folder: Path) -> list[Path]:
    """The file of each trace in *folder*, in the order of the traces."""
    import hashlib

    return [folder / (hashlib.sha256(str(path).encode()).hexdigest()[:16] + ".json") for path in traces]


if __name__ == "__main__":
    sys.exit(main())
