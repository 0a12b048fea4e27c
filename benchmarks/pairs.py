"""Predicted and measured gains of programs with one fault each: ``python benchmarks/pairs.py --out DIR``, where torch is.

Each folder of benchmarks/pairs holds a program with one fault (before.py), the same without it (after.py) and what its author
thinks of it (fault.toml). A folder without these two has a script of another name beside after.py, and its fault in the table of
the README above it. For each: before.py is recorded and analyzed, after.py is recorded, and both are timed without a
profiler, in turns (before, after, after, before: a round). A program that prints no time of a step is timed as `advisor fix`
times one: its steps are found as the recorder finds them, and it ends once there are enough. Writes pairs.json after every
program, and prints a table in Markdown. The analysis of a GPU's program runs beside its timings; all else runs alone.

``python benchmarks/pairs.py --again DIR`` needs neither torch nor a device: it analyzes the traces of an earlier run, or of
``benchmarks/gpu_parts/traces.py`` (sample_traces/h100 holds both), with the rules as they are now, and prints the ranges beside
the gains measured then.
``--out`` keeps the analyses; ``--earlier`` names a folder where another ``--again`` kept its own, whose ranges are printed, too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import mean, median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAIRS = ROOT / "benchmarks" / "pairs"
NEAR = 3
"""Lines by which a finding's place may differ from the fault's."""
FEWEST, MOST = 10, 400
WARM = 3
"""First steps of a run that are left out where the advisor times them."""
COLUMNS = [
    "program",
    "fault",
    "step ms",
    "first finding",
    "rank of fault's line",
    "predicted range",
    "measured gain",
    "inside",
]


def file_of(script: str, folder: Path) -> str:
    """The name of a script in a folder: that of before.py is its own where the only other script but after*.py is called so."""
    others = [path.name for path in sorted(folder.glob("*.py")) if not path.name.startswith("after")]
    return others[0] if script == "before.py" and script not in others and len(others) == 1 else script


def run(command: list[str], folder: Path, limit: float) -> dict[str, Any]:
    """Exit status, output, wall time and processor time (with the children it waited for) of one process."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep),
    }
    begin = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    texts: dict[str, bytes] = {}
    readers = [
        threading.Thread(target=lambda name=name, pipe=pipe: texts.__setitem__(name, pipe.read()), daemon=True)
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr))
    ]
    for reader in readers:
        reader.start()
    late = threading.Event()

    def stop() -> None:
        late.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limit, stop)
    timer.start()
    # The usage of this child alone: RUSAGE_CHILDREN would count an analysis that ends meanwhile.
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    for reader in readers:
        reader.join(10)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return {
        "rc": process.returncode,
        "timed_out": late.is_set(),
        "wall_s": round(wall, 3),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
        "stdout": texts.get("stdout", b"").decode(errors="replace"),
        "stderr": texts.get("stderr", b"").decode(errors="replace"),
    }


def brief(done: dict[str, Any]) -> dict[str, Any]:
    """A process as it is kept: the ends of what it printed."""
    return {**done, "stdout": done["stdout"][-500:], "stderr": done["stderr"][-2000:]}


class Forked:
    """Runs scripts in children of one process that has imported torch (forked.py): seconds a run less."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("forked.py"))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, script: str, arguments: list[str], folder: Path, limit: float) -> dict[str, Any]:
        """As :func:`run`."""
        task = {"script": script, "arguments": arguments, "folder": str(folder), "limit": limit}
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("forked.py has no pipes")
        print(json.dumps(task), file=self.process.stdin, flush=True)
        done: dict[str, Any] = json.loads(self.process.stdout.readline())
        return done


def printed(text: str) -> dict[str, Any]:
    """Figures that a program printed last: a line of JSON with "ms", or a line that gives its step ("step 12.3 ms").

    Raises ValueError where there is neither.
    """
    lines = text.strip().splitlines() or [""]
    try:
        figures = json.loads(lines[-1])
        if not isinstance(figures, dict):
            raise ValueError(f"Expecting figures, not {lines[-1]:.40}")
        return figures
    except ValueError:
        said = re.compile(r"(?:mean |median )?step(?: ([\d.]+) ms|_ms:? ([\d.]+))")
        spoken = [match for line in lines if (match := said.fullmatch(line))]
        if not spoken:
            raise
    return {"ms": float(spoken[-1][1] or spoken[-1][2])}


def timed(
    script: str, folder: Path, steps: int, small: bool, limit: float, forked: Forked | None = None
) -> dict[str, Any]:
    """One run without a profiler; ``ms`` and ``peak_mb`` are None if it failed."""
    arguments = ["--steps", str(steps), *(["--small"] if small else [])]
    if forked is not None:
        done = forked.run(file_of(script, folder), arguments, folder, limit)
    else:
        done = run([sys.executable, file_of(script, folder), *arguments], folder, limit)
    figures: dict[str, Any] = {"ms": None, "peak_mb": None}
    if done["rc"] == 0:
        try:
            figures = printed(done["stdout"])
        except ValueError:
            done["rc"] = "no figures"
    kept = {"script": script, "steps": steps, **figures, **{key: done[key] for key in ("rc", "wall_s", "cpu_s")}}
    return kept if done["rc"] == 0 else {**kept, "stderr": done["stderr"][-2000:]}


def asked(script: Path, steps: int) -> list[str]:
    """Arguments for so many steps; none for a script that is not asked for them: it is stopped once there are enough."""
    return ["--steps", str(steps)] if '"--steps"' in script.read_text() else []


def followed(trace: Path) -> list[str]:
    """Options that tell a run without a profiler which steps were recorded, as the recorder found them."""
    from advisor.reading.program_settings import KEY
    from advisor.reading.recorded_settings import read
    from advisor.record.measured import Followed

    root = json.loads(gzip.decompress(trace.read_bytes())) if trace.exists() else {}
    return Followed.of(read(root.get(KEY))).options()


def watched(script: str, folder: Path, seconds: float, limit: float, steps: Sequence[str] = ()) -> dict[str, Any]:
    """One run of a program that prints no times: the mean of its steps behind the first few, the *steps* of :func:`followed`.

    What comes once in several steps (waits for workers, an epoch's end) is in the mean alone.
    """
    with tempfile.TemporaryDirectory() as kept:
        out = Path(kept) / "run.json"
        options = ["--out", str(out), "--root", str(folder), "--least", str(FEWEST), "--seconds", str(seconds)]
        command = [
            sys.executable,
            "-m",
            "advisor.record.measure",
            *options,
            *steps,
            file_of(script, folder),
            *asked(folder / file_of(script, folder), MOST),
        ]
        done = run(command, folder, limit)
        left = sorted(Path(kept).glob("*.json"))  # one for each rank
        found = json.loads(left[0].read_text()) if left else {}
    times = found.get("step_ms", [])[WARM:]
    failed = done["rc"] or found.get("error") or ("" if len(times) >= WARM else "no steps")
    figures = {"ms": None if failed else mean(times), "unit": found.get("unit"), "steps": len(times)}
    kept_of = {"script": script, **figures, **{key: done[key] for key in ("wall_s", "cpu_s")}, "rc": failed or 0}
    return {**kept_of, "stderr": done["stderr"][-2000:]} if failed else kept_of


def found_again(script: str, folder: Path, seconds: float, limit: float, steps: Sequence[str]) -> dict[str, Any]:
    """As :func:`watched`; where the script has no loop of that name any more, by the loop that a run finds."""
    done = watched(script, folder, seconds, limit, steps)
    if done["rc"] == "no steps" and "--loop" in steps:
        at = list(steps).index("--loop")
        done = watched(script, folder, seconds, limit, [*steps[:at], *steps[at + 2 :]])
    return done


def record(script: str, trace: Path, folder: Path, small: bool, limit: float) -> dict[str, Any]:
    options = ["--stop", "--force", "--steps", "6", "--skip", "12", "-o", str(trace)]
    file = file_of(script, folder)
    command = [sys.executable, "-m", "advisor", "record", *options, file, *asked(folder / file, 60)]
    return brief(run([*command, *(["--small"] if small else [])], folder, limit))


def analyze(trace: Path, target: Path, limit: float) -> dict[str, Any]:
    """The analysis of a trace, also written to ``target``; under "failed" what went wrong."""
    done = run([sys.executable, "-m", "advisor", "analyze", "-f", "json", str(trace)], ROOT, limit)
    try:
        result: dict[str, Any] = json.loads(done["stdout"])
    except ValueError:
        return {"failed": brief(done)}
    target.write_text(done["stdout"])
    return result


def findings(analysis: dict[str, Any]) -> list[dict[str, Any]]:
    """The kept figures of each finding, in the order of the report."""
    kept = []
    for finding in analysis.get("findings", []):
        saving = finding.get("saving") or {}
        places = [place for place in finding.get("where") or [] if place.get("file")]
        kept.append(
            {
                "rule": finding["rule"],
                "severity": finding["severity"],
                "confidence": finding.get("confidence"),
                "title": finding["title"],
                "low_ms": saving.get("low_ms"),
                "high_ms": saving.get("high_ms"),
                "low_share": saving.get("low_share"),
                "high_share": saving.get("high_share"),
                "places": [{key: place.get(key) for key in ("file", "line", "share")} for place in places],
            }
        )
    return kept


def rank(found: list[dict[str, Any]], lines: list[int], script: str = "before.py") -> int | None:
    """The number, from 1, of the first finding of which a place is one of the lines, or near it."""
    for number, finding in enumerate(found, 1):
        for place in finding["places"]:
            if not place["line"] or Path(place["file"]).name != script:
                continue
            if any(abs(place["line"] - line) <= NEAR for line in lines):
                return number
    return None


def gain(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians of both scripts, and what lies between them."""
    middle: list[float | None] = []
    for script in ("before.py", "after.py"):
        times = [one["ms"] for one in runs if one["script"] == script and one["ms"] is not None]
        middle.append(median(times) if times else None)
    before, after = middle
    gained = None if before is None or after is None else before - after
    return {
        "before_ms": before,
        "after_ms": after,
        "gain_ms": gained,
        "gain_share": gained / before if gained is not None and before else None,
    }


def inside(finding: dict[str, Any] | None, measured: dict[str, Any]) -> str:
    """Place of the measured gain in the predicted range: "yes", "no", or only in its "ms" or "share"."""
    if finding is None or finding["low_ms"] is None or measured["gain_ms"] is None:
        return "unknown"
    in_ms = finding["low_ms"] <= measured["gain_ms"] <= finding["high_ms"]
    in_share = finding["low_share"] <= measured["gain_share"] <= finding["high_share"]
    return {(True, True): "yes", (True, False): "ms", (False, True): "share", (False, False): "no"}[in_ms, in_share]


def judge(one: dict[str, Any]) -> dict[str, Any]:
    """A program's row, from what was recorded and timed.

    The prediction is that of the finding whose rule the fault names, where a line alone would take another's for it; else of
    that at the fault's line or, where no finding names the line, of the first.
    """
    found, measured = one["findings"], gain(one["runs"])
    file = Path(one.get("file", "before.py")).name
    strict, wide = rank(found, [one["line"]], file), rank(found, [one["line"], *one["also"]], file)
    place = strict or wide
    named = [finding for finding in found if finding["rule"] == one.get("rule")]
    chosen = named[0] if named else found[place - 1] if place else (found[0] if found else None)
    return {
        **measured,
        "rank": strict,
        "rank_also": wide,
        "judged": chosen["rule"] if chosen else None,
        "inside": inside(chosen, measured),
    }


def span(low: float | None, high: float | None, digits: int) -> str:
    return "–" if low is None or high is None else f"{low:.{digits}f}–{high:.{digits}f}"


def table(results: dict[str, dict[str, Any]]) -> str:
    """The programs as a table in Markdown. A rank in brackets is that of a line where the fault's time is spent."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for name, one in results.items():
        row = judge(one)
        found = one["findings"]
        chosen = next((finding for finding in found if finding["rule"] == row["judged"]), None)
        if row["rank"]:
            place = str(row["rank"])
        elif row["rank_also"]:
            place = f"({row['rank_also']})"
        else:
            place = "unknown"
        predicted = "–"
        if chosen and chosen["low_ms"] is not None:
            shares = span(100 * chosen["low_share"], 100 * chosen["high_share"], 0)
            predicted = f"{span(chosen['low_ms'], chosen['high_ms'], 2)} ms, {shares} %"
        measured = "failed"
        if row["gain_ms"] is not None:
            measured = f"{row['gain_ms']:.2f} ms, {100 * row['gain_share']:.0f} %"
        step = "–" if row["before_ms"] is None else f"{row['before_ms']:.2f}"
        first = found[0]["rule"] if found else ("failed" if one["failures"] else "none")
        cells = [name, one["fault"], step, first, place, predicted, measured, row["inside"]]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


FAULTS = {
    "attention_by_hand": "kernels/unfused-attention",
    "copy": "transfer/pageable-copy",
    "layout": "kernels/layout-transpose",
    "slow_sample": "data-loading/single-process-loader",
    "checkpoint": "memory/unneeded-checkpointing",
    "item": "sync/scalar-readback",
}
"""Rule that speaks of a fault of gpu_parts/traces.py; the others are judged by the first finding, or that in their line."""
AGAIN = [
    "program",
    "judged by",
    "ms",
    "recorded ms",
    "range now",
    "range earlier",
    "measured gain",
    "inside",
    "earlier",
    "all",
]


def measured_there(folder: Path) -> dict[str, dict[str, Any]]:
    """Programs of a folder, as pairs.json has them: with the gains that were measured, and what was found then."""
    results: dict[str, dict[str, Any]] = {}
    for kept in (folder / "pairs.json", folder / "measured.json"):
        if kept.exists():
            results = json.loads(kept.read_text())
            return {name: {"fault": "", "findings": [], **one} for name, one in results.items()}
    for path in sorted(folder.glob("*.json")):
        truth = json.loads(path.read_text())
        before, after = truth.get("without_profiler_ms"), truth.get("without_fault_ms")
        if not truth.get("fault") or before is None or after is None:
            continue
        place = str(truth.get("line") or "")
        line = int(place.rpartition(":")[2]) if place else -1
        runs = [{"script": "before.py", "ms": before}, {"script": "after.py", "ms": after}]
        results[path.stem] = {"fault": truth["fault"], "line": line, "also": [], "runs": runs, "findings": []}
    return results


def trace_there(folder: Path, name: str) -> Path | None:
    """The trace of a program, of either kind of folder."""
    candidates = (folder / f"{name}.trace.json.gz", folder / f"{name}.json.gz")
    return next((path for path in candidates if path.exists()), None)


def chosen(one: dict[str, Any]) -> dict[str, Any] | None:
    """The finding that a program is judged by: of its fault's rule, in its line, or the first."""
    found = one["findings"]
    rule = FAULTS.get(one["fault"])
    for finding in found:
        if finding["rule"] == rule:
            return dict(finding)
    lines, scripts = [one["line"], *one["also"]], (one.get("file", "before.py"), "traces.py")
    place = next((place for script in scripts if (place := rank(found, lines, script))), 1)
    return dict(found[place - 1]) if found else None


def again_row(name: str, one: dict[str, Any], now: dict[str, Any] | None, earlier: dict[str, Any] | None) -> list[str]:
    """A row: the range that the analysis *now* gives, that of an *earlier* one (else of pairs.json), and the measured gain."""
    measured = gain(one["runs"])
    then = {**one, "findings": findings(earlier)} if earlier is not None else one
    fresh = {**one, "findings": findings(now)} if now is not None else None
    judged, past = chosen(fresh) if fresh else None, chosen(then)
    if judged is not None:
        past = next((finding for finding in then["findings"] if finding["rule"] == judged["rule"]), None)

    def ranged(finding: dict[str, Any] | None) -> str:
        return span(finding["low_ms"], finding["high_ms"], 2) if finding else "–"

    savings = [] if fresh is None else [f for f in fresh["findings"] if f["low_ms"] is not None]
    recorded = (((now or {}).get("summary") or {}).get("step_ms") or {}).get("median")
    got = "–"
    if measured["gain_ms"] is not None:
        got = f"{measured['gain_ms']:.2f} ms, {100 * measured['gain_share']:.0f} %"
    shown = judged or past
    return [
        name,
        shown["rule"] if shown else "none",
        "–" if measured["before_ms"] is None else f"{measured['before_ms']:.2f}",
        "–" if recorded is None else f"{recorded:.2f}",
        ranged(judged) if fresh else "no trace",
        ranged(past),
        got,
        inside(judged, measured) if fresh else "–",
        inside(past, measured),
        span(sum(f["low_ms"] for f in savings), sum(f["high_ms"] for f in savings), 2) if savings else "–",
    ]


def again(options: argparse.Namespace) -> str:
    """The traces of an earlier run analyzed once more, as a table in Markdown."""
    programs = measured_there(options.again)
    names = [name for name in programs if not options.names or name in options.names]
    out = options.out
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)

    def one_more(name: str) -> dict[str, Any] | None:
        trace = trace_there(options.again, name)
        if trace is None:
            return None
        result = analyze(trace, out / f"{name}.json" if out is not None else Path(os.devnull), options.limit)
        if "failed" in result:
            print(f"{name}: {result['failed']['stderr'][-500:]}", file=sys.stderr)
            return None
        return result

    def before(name: str) -> dict[str, Any] | None:
        path = options.earlier / f"{name}.json" if options.earlier is not None else None
        return json.loads(path.read_text()) if path is not None and path.exists() else None

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(one_more, names))
    if options.keep is not None:
        fresh = {
            name: {**programs[name], "findings": findings(result)}
            for name, result in zip(names, results, strict=True)
            if result is not None
        }
        options.keep.write_text(json.dumps(kept(fresh), indent=1) + "\n")
    lines = ["| " + " | ".join(AGAIN) + " |", "|" + "---|" * len(AGAIN)]
    for name, result in zip(names, results, strict=True):
        cells = again_row(name, programs[name], result, before(name))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def kept(results: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what the docs show of programs: the fault, the first finding, and the gain, which is that of what is judged.

    That is the finding at the fault's line (``at_line``), the first where none is there.
    """
    rows = {}
    for name, one in results.items():
        row, found = judge(one), one["findings"]
        if row["gain_share"] is None or not one["fault"]:
            continue
        judged = next((finding for finding in found if finding["rule"] == row["judged"]), None)
        rows[name] = {
            "fault": one["fault"],
            "before_ms": round(row["before_ms"], 3),
            "after_ms": round(row["after_ms"], 3),
            "gain_share": round(row["gain_share"], 4),
            "first": found[0]["rule"] if found else None,
            "judged": row["judged"],
            "at_line": bool(row["rank"] or row["rank_also"]),
            "low_share": judged and judged["low_share"] and round(judged["low_share"], 4),
            "high_share": judged and judged["high_share"] and round(judged["high_share"], 4),
        }
    return rows


def steps_for(ms: float, seconds: float) -> int:
    """Steps that take about so many seconds."""
    return max(FEWEST, min(MOST, round(seconds * 1000 / ms)))


def fault_of(folder: Path) -> dict[str, Any]:
    """The words of a program's author; where he names several lines in one text, the first is the fault's."""
    words, table = folder / "fault.toml", folder.parent / "README.md"
    if not words.exists():
        text = table.read_text() if table.exists() else ""
        row = re.search(rf"^\| *{re.escape(folder.name)} *\|([^|]+)\|", text, re.MULTILINE)
        return {"fault": row[1].strip() if row else "", "file": file_of("before.py", folder), "line": -1, "also": []}
    fault = tomllib.loads(words.read_text())
    first, *others = re.findall(r"(\w+\.py):(\d+)", fault.get("lines", "")) or [(None, None)]
    if first[0]:
        fault = {"file": first[0], "line": int(first[1]), "also": [int(line) for _, line in others], **fault}
    return {"fault": "", "line": -1, "also": [], **fault}


def take(
    name: str, options: argparse.Namespace, pool: ThreadPoolExecutor, forked: Forked | None = None
) -> tuple[dict[str, Any], Future[Any] | None]:
    """Record and time one program; its analysis is still under way."""
    folder = options.programs / name
    failures: list[str] = []
    one: dict[str, Any] = {**fault_of(folder), "findings": [], "runs": [], "failures": failures}
    one["records"] = {}
    traces = {
        "before.py": options.out / f"{name}.trace.json.gz",
        "after.py": options.out / f"{name}.after.trace.json.gz",
    }
    future = None
    for script, trace in list(traces.items())[: 1 if options.no_after else 2]:
        done = record(script, trace, folder, options.small, options.limit)
        one["records"][script] = done
        of_rank = trace.with_name(trace.name.replace(".trace.", ".trace.rank0."))
        if not trace.exists() and of_rank.exists():  # a program that starts ranks: the first of them speaks for all
            of_rank.rename(trace)
        if done["rc"] != 0 or not trace.exists():
            failures.append(f"recording {script}: status {done['rc']}")
        elif script == "before.py":
            future = pool.submit(analyze, trace, options.out / f"{name}.json", options.limit)
    if future is not None and one.get("device") != "cuda":
        future.result()  # it would take the cores of a program that runs on them
    # The recordings filled the caches (compiled code); a short run tells how many steps the others need. The repaired script
    # takes less time a step, and is given more of them.
    asks = asked(folder / file_of("before.py", folder), options.trial)
    if not asks:  # nor does it print the time of a step in our words
        trial = one["trial"] = {"ms": None, "rc": "no figures"}
    else:
        trial = one["trial"] = timed("before.py", folder, options.trial, options.small, options.limit, forked)
    if trial["ms"] is None and trial["rc"] != "no figures" and forked is not None:
        # An import may have begun CUDA in the parent, whose children then have none.
        forked = None
        trial = one["trial"] = timed("before.py", folder, options.trial, options.small, options.limit)
    silent = trial["rc"] == "no figures"
    recorded = followed(traces["before.py"]) if silent else []
    if trial["ms"] is None and not silent:
        failures.append(f"timing before.py: status {trial['rc']}")
        return one, future
    steps = 0 if silent else steps_for(trial["ms"], options.seconds)
    counts = {"before.py": steps, "after.py": min(MOST, 2 * steps)}
    for _ in range(options.rounds):
        for script in ("before.py", "after.py", "after.py", "before.py"):
            if silent:
                one["runs"].append(found_again(script, folder, options.seconds, options.limit, recorded))
            else:
                one["runs"].append(timed(script, folder, counts[script], options.small, options.limit, forked))
    if len({timing["unit"] for timing in one["runs"] if timing.get("unit")}) > 1:
        failures.append("the scripts' steps are different things")
    failures += [f"timing {timing['script']}: status {timing['rc']}" for timing in one["runs"] if timing["ms"] is None]
    return one, future


def finish(one: dict[str, Any], future: Future[Any] | None) -> None:
    """Put the analysis, once it is there, into a program's result."""
    if future is not None:
        analysis = future.result()
        if "failed" in analysis:
            one["failures"].append("analysis")
            one["analysis_failed"] = analysis["failed"]
        else:
            one["findings"] = findings(analysis)
            one["headline"] = (analysis.get("headline") or {}).get("text")
            one["plan"] = analysis.get("plan")
            summary = analysis.get("summary") or {}
            one["trace"] = {key: summary.get(key) for key in ("steps", "step_ms")}
    one["judged"] = judge(one)


def write(results: dict[str, Any], target: Path) -> None:
    """The results so far, whole at any moment."""
    beside = target.with_suffix(".part")
    beside.write_text(json.dumps(results, indent=1))
    beside.replace(target)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="programs; without any, all")
    parser.add_argument("--out", type=Path, help="folder for what is measured; needed but with --again")
    parser.add_argument(
        "--again", type=Path, metavar="DIR", help="analyze the traces of an earlier run again, and time nothing"
    )
    parser.add_argument("--earlier", type=Path, metavar="DIR", help="with --again: analyses that another one kept")
    parser.add_argument(
        "--programs",
        type=Path,
        nargs="+",
        default=[PAIRS],
        metavar="DIR",
        help="their folders, benchmarks/pairs if not given; of several each has a folder of its name in --out, or --again",
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write what docs/replay.md shows")
    parser.add_argument(
        "--publish", action="store_true", help="write the same as measured.json into each of --programs"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="tiny sizes, for a look at the runner itself")
    parser.add_argument(
        "--budget", type=float, default=float("inf"), help="seconds after which no new program is begun"
    )
    parser.add_argument("--limit", type=float, default=120, help="seconds after which one process is ended")
    parser.add_argument("--seconds", type=float, default=2.5, help="timed steps of one process, about")
    parser.add_argument("--trial", type=int, default=20, help="steps of the run that tells how many the others take")
    parser.add_argument("--no-after", action="store_true", help="record only the programs with the fault")
    parser.add_argument(
        "--resume", action="store_true", help="leave out the programs that pairs.json has without failures"
    )
    parser.add_argument("--fast", action="store_true", help="time in children of one process that has imported torch")
    options = parser.parse_args()
    if options.again is None and options.out is None:
        parser.error("--out DIR is needed")
    options.began = time.perf_counter()
    for programs in options.programs:
        one = argparse.Namespace(**vars(options))
        one.programs = programs.resolve()
        for folder in ("out", "again", "earlier"):
            given = getattr(options, folder)
            if given is not None:
                setattr(one, folder, given.resolve() / (programs.name if len(options.programs) > 1 else ""))
        if options.publish:
            one.keep = one.programs / "measured.json"
        print(again(one) if one.again is not None else measure(one))


def measure(options: argparse.Namespace) -> str:
    """Record and time the programs of one folder; returns their table."""
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    repaired = sorted(path.parent.name for path in options.programs.glob("*/after.py"))
    names = options.names or repaired
    target = out / "pairs.json"
    results: dict[str, Any] = json.loads(target.read_text()) if options.resume and target.exists() else {}
    forked = Forked() if options.fast else None
    with ThreadPoolExecutor(1) as pool:
        for name in names:
            if name in results and not results[name]["failures"]:
                continue
            if time.perf_counter() - options.began > options.budget:
                print(f"{name}: left out, the time is spent", file=sys.stderr)
                continue
            started = time.perf_counter()
            try:
                one, future = take(name, options, pool, forked)
                finish(one, future)
            except Exception as error:  # noqa: BLE001 - the others go on, whatever it is
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            results[name] = one
            write(results, target)
            judged = one["judged"]
            words = f"{judged['before_ms']} -> {judged['after_ms']} ms, {one['failures'] or 'ok'}"
            print(f"{name}: {words}, {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    if options.keep is not None:
        options.keep.write_text(json.dumps(kept(results), indent=1) + "\n")
    return table(results)


if __name__ == "__main__":
    main()
