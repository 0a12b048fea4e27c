"""Takes home what was recorded on a rented GPU: ``python sample_traces/h100/keep.py BENCH PAIRS LADDER``, ``… CASES``,
or ``… PAIRS TARGET``.

BENCH is the folder that ``benchmarks/gpu.py`` wrote, PAIRS that of ``benchmarks/pairs.py``, LADDER that of ``advisor ladder``.
CASES is the folder of cases that ``benchmarks/gpu.py --only cases`` wrote. TARGET takes the programs of PAIRS alone.
Traces are packed anew without the name of the file they were first written to; of temporary folders the name goes. Nothing
else is changed. Traces of over a megabyte stay behind.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LARGEST = 1_000_000
TEMPORARY = re.compile(r"/tmp/(?:tmp\w+/|torchinductor/)")


def keep(source: Path, target: Path) -> bool:
    """Write a trace, packed as well as gzip can. False where it is too large."""
    root = json.loads(TEMPORARY.sub("/tmp/torchinductor/", gzip.decompress(source.read_bytes()).decode()))
    root.pop("traceName", None)
    packed = gzip.compress(json.dumps(root, separators=(",", ":")).encode(), 9, mtime=0)
    if len(packed) > LARGEST:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(packed)
    return True


def keep_cases(folder: Path) -> None:
    """Copy the cases and what was measured of each."""
    for source in sorted(folder.glob("*.json.gz")):
        if keep(source, HERE / "cases" / source.name):
            truth = json.loads(source.with_name(source.name.removesuffix(".gz")).read_text())
            (HERE / "cases" / source.name.removesuffix(".gz")).write_text(
                json.dumps(truth, separators=(",", ":")) + "\n"
            )


def keep_programs(pairs: Path, target: Path) -> None:
    """Copy the traces of programs, and what was measured of them."""
    target.mkdir(parents=True, exist_ok=True)
    measured = json.loads((pairs / "pairs.json").read_text())
    kept = {}
    for name, one in sorted(measured.items()):
        judged = {key: one["judged"][key] for key in ("before_ms", "after_ms", "gain_ms", "gain_share")}
        file = f"{name}.trace.json.gz"
        there = (pairs / file).exists() and keep(pairs / file, target / file)
        runs = [{key: run[key] for key in ("script", "steps", "ms", "peak_mb")} for run in one["runs"]]
        kept[name] = {
            **judged,
            "line": one["line"],
            "also": one["also"],
            "trace": file if there else None,
            "runs": runs,
        }
    (target / "measured.json").write_text(json.dumps(kept, indent=1) + "\n")


def main(bench: Path, pairs: Path, ladder: Path) -> None:
    """Copy the traces, the truth beside them, and the figures."""
    for source in sorted((bench / "traces").glob("*.json.gz")):
        if keep(source, HERE / "known" / source.name):
            truth = json.loads(source.with_name(source.name.removesuffix(".gz")).read_text())
            (HERE / "known" / source.name.removesuffix(".gz")).write_text(json.dumps(truth, indent=1) + "\n")
    for source in sorted(ladder.glob("*.json.gz")):
        keep(source, HERE / "ladder" / source.name)
    keep_programs(pairs, HERE / "programs")
    figures = json.loads((bench / "gpu.json").read_text())
    (HERE / "figures.json").write_text(json.dumps(figures, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    folders = [Path(name) for name in sys.argv[1:]]
    if len(folders) == 1:
        keep_cases(folders[0])
    elif len(folders) == 2:
        keep_programs(*folders)
    else:
        main(*folders)
