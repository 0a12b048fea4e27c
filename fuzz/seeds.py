"""Seeds to damage: small pieces of real traces, the project's own samples, and every case that proves a rule.

A trace is cut down to a few hundred events, so that an input takes ms: a stretch of the host's events, the GPU's work
that they launched, the steps, and the root object as it was.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EVENTS = 250
_STEPS = 4

Root = dict[str, Any]


def real_traces() -> list[Path]:
    """The real traces, where this machine has them: in ADVISOR_TRACES, else beside the checkout."""
    folder = Path(os.environ.get("ADVISOR_TRACES", ROOT.parent / "shared" / "traces"))
    return sorted(folder.rglob("*.json.gz"))


def prepare(folder: Path, largest_kb: float = math.inf) -> int:
    """Write every seed to *folder*, one JSON file each; returns how many there are. Larger recordings are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, root in [*_recorded(largest_kb), *_proof_traces()]:
        (folder / f"{count:04} {name}.json").write_text(json.dumps(root))
        count += 1
    return count


def load(folder: Path) -> list[tuple[str, Root]]:
    """The seeds in *folder*, by name."""
    return [(path.stem, json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def _recorded(largest_kb: float) -> Iterator[tuple[str, Root]]:
    """Three pieces of each recorded trace: from its beginning, its middle and its end."""
    samples = sorted((ROOT / "sample_traces").rglob("*.json.gz"))
    for path in [*real_traces(), *samples]:
        if path.stat().st_size > largest_kb * 1000:
            continue
        with gzip.open(path) as file:
            text = file.read()
        root = json.loads(text.decode("utf-8", "replace"), strict=False)
        root = {"traceEvents": root} if isinstance(root, list) else root
        name = "-".join(path.relative_to(path.parent.parent).parts).removesuffix(".json.gz")
        for part, piece in enumerate(pieces(root, (0.0, 0.5, 1.0))):
            yield f"{name}.{part}", piece


def shrunk(root: Root, share: float, most: int = EVENTS) -> Root:
    """At most about *most* events of a trace, from *share* of its way on."""
    return pieces(root, [share], most)[0]


def pieces(root: Root, shares: Sequence[float], most: int = EVENTS) -> list[Root]:
    """For each of the *shares*, at most about *most* events of a trace from there on: its events are put in order once."""
    events = [event for event in root["traceEvents"] if isinstance(event, dict)]
    timed = sorted((e for e in events if isinstance(e.get("ts"), int | float)), key=lambda e: float(e["ts"]))
    host: list[Root] = []
    work: list[tuple[Root, Any]] = []
    for event in timed:
        if _on_gpu(event):
            work.append((event, _correlation(event)))
        else:
            host.append(event)
    steps = [event for event in host if str(event.get("name", "")).startswith("ProfilerStep#")][:_STEPS]
    metadata = [event for event in events if event.get("ph") == "M"][:5]
    found = []
    for share in shares:
        begin = int(share * max(0, len(host) - most // 2))
        piece = host[begin : begin + most // 2]
        correlations = {_correlation(event) for event in piece} - {None}
        linked = [event for event, correlation in work if correlation in correlations][: most // 2]
        if not linked:
            start = int(share * max(0, len(work) - most // 2))
            linked = [event for event, _ in work[start : start + most // 2]]
        events_by_id = {id(event): event for event in [*metadata, *steps, *piece, *linked]}
        found.append({**root, "traceEvents": list(events_by_id.values())})
    return found


def _on_gpu(event: dict[str, Any]) -> bool:
    args = event.get("args")
    return isinstance(args, dict) and "stream" in args and "device" in args


def _correlation(event: dict[str, Any]) -> Any:
    args = event.get("args")
    return args.get("correlation") if isinstance(args, dict) else None


def _proof_traces() -> Iterator[tuple[str, Root]]:
    """The cases that prove the rules: on each of them some rule fires, or nearly does."""
    from advisor.testing import TraceBuilder
    from advisor.testing.proof import SUFFIX, cases

    for path in sorted((ROOT / "rules").rglob(f"*{SUFFIX}")):
        for case in cases(path):
            output = case.build(True) if case.kind == "edge" else case.build()
            builder = output[0] if isinstance(output, list) else output
            if isinstance(builder, TraceBuilder):
                root = json.loads(builder.to_json())
                root = {"traceEvents": root} if isinstance(root, list) else root
                yield f"{path.name.removesuffix(SUFFIX)}-{case.name[:60]}", shrunk(root, 0.0)
