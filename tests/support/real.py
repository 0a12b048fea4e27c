"""The list of the real traces, ``tests/real_traces.json``, and where its files are.

``python tests/support/real.py FOLDER`` prints the path of each, those in ``audited`` beside FOLDER included; it exits with 1
where one is missing. Other files in these folders are ignored.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACES = Path(os.environ.get("ADVISOR_TRACES", ROOT.parent / "shared" / "traces"))
LISTED: dict[str, dict[str, str]] = json.loads((ROOT / "tests" / "real_traces.json").read_text())
NAMES = sorted(LISTED["traces"])
AUDITED = sorted(f"audited/{name}" for name in LISTED["audited"])


def path_of(name: str, traces: Path = TRACES) -> Path:
    """Path that a listed trace should have; ``.json.gz`` may be left out of *name*."""
    name = name if name.endswith(".json.gz") else f"{name}.json.gz"
    return traces.parent / name if name.startswith("audited/") else traces / name


def main() -> int:
    """Print the paths; those that are missing go to stderr."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else TRACES
    paths = [path_of(name, folder.resolve()) for name in (*NAMES, *AUDITED)]
    missing = [path for path in paths if not path.is_file()]
    print(*(path for path in paths if path not in missing), sep="\n")
    print(*(f"{path} is missing" for path in missing), sep="\n", file=sys.stderr, end="\n" if missing else "")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
