"""Climbs the ladder on this machine's CPU and leaves here what came of it: the traces, the table, and where they are from.

    python sample_traces/cpu_ladder/record.py [STEPS]
    python docs/renew.py

It needs torch and Pillow, and takes some minutes. On a machine that does something else meanwhile, the figures are worth nothing.
"""

from __future__ import annotations

import datetime
import gzip
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STEPS = 60

sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

ORIGIN = """# Where these files are from

Recorded, not built: `advisor ladder --device cpu --steps {steps}` ran here on {day} (UTC), by `record.py`.

- machine: {name}, {cores} cores
- torch {torch}, Python {python}, advisor {advisor}
- program: `examples/ladder/train.py`, {network} ({parameters:,} parameters), in the states of `ladder.json`

`ladder.json` holds the table, whose step times were measured without the profiler; `docs/ladder.md` shows it. Each trace holds
{recorded} steps that `advisor record` recorded after the warm-up, with shapes, memory, settings, and stacks from a pass of
their own. Packed anew, nothing else was changed.

| file | state | change |
| --- | --- | --- |
{rows}
"""


def main(steps: int = STEPS) -> int:
    """Climb, and keep what is worth keeping. 1 where a state failed: then nothing here is touched."""
    from ladder import running, table, text

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        found = table.climb(running.machine("cpu"), folder, steps=steps, say=lambda line: print(line, flush=True))
        print(text.render(found))
        if failed := [rung.name for rung in found.rungs if rung.outcome == "failed"]:
            print(f"failed: {', '.join(failed)}; nothing was written", file=sys.stderr)
            return 1
        for old in HERE.glob("state*.json.gz"):
            old.unlink()
        rows = []
        for rung in found.rungs:
            rows.append(f"| {rung.trace or rung.because} | {rung.number} | {rung.title} |")
            if rung.trace is not None:
                with (
                    open(HERE / rung.trace, "wb") as file,
                    gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0, filename="") as packed,
                ):
                    packed.write(gzip.decompress((folder / rung.trace).read_bytes()))
    (HERE / "ladder.json").write_bytes(found.to_json())
    (HERE / "ORIGIN.md").write_text(
        ORIGIN.format(
            steps=steps,
            day=datetime.datetime.now(datetime.UTC).date().isoformat(),
            name=found.machine.name,
            cores=found.machine.cores,
            torch=found.machine.torch,
            python=found.machine.python,
            advisor=found.advisor,
            network=found.network,
            parameters=found.parameters,
            recorded=running.RECORDED_STEPS,
            rows="\n".join(rows),
        ),
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
