"""Measure the budgets: whole processes, medians of five, each beside a process that only starts Python and imports.

    python benchmarks/run.py [--traces DIR] [--large] [--runs N]

Prints one line a figure; it never fails a build. Peak memory is the operating system's own account of the process.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMPORTS = "import numpy, duckdb, msgspec, click, isal.isal_zlib"
READING = """
import sys, time, gc
from advisor.reading import stream
gc.disable()
best = []
for _ in range(5):
    start = time.perf_counter()
    recorded = stream.read(sys.argv[1])
    best.append(time.perf_counter() - start)
best.sort()
print(recorded.size / best[2] / 1e6)
"""
STAGES = """
import sys, time
import numpy, duckdb, msgspec
import advisor.pipeline, advisor.trace
from advisor import rulebook
from advisor.engine.run import run
from advisor.frames import SCHEMAS
from advisor.replay import plan
start = time.perf_counter()
book = rulebook.load([rulebook.builtin_rules_dir()])
loaded = time.perf_counter() - start
start = time.perf_counter()
trace = advisor.trace.read(sys.argv[1])
read = time.perf_counter() - start
start = time.perf_counter()
for name in SCHEMAS:
    trace.frame(name)
frames = time.perf_counter() - start
start = time.perf_counter()
outcome = run(trace, book)
rules = time.perf_counter() - start
start = time.perf_counter()
plan.make(trace, outcome)
replay = time.perf_counter() - start
print(loaded, read, frames, rules, replay)
"""


def measure(command: list[str], runs: int) -> tuple[list[float], float]:
    """Wall seconds of each run after one warm-up, and the highest peak memory in MB."""
    walls, peak = [], 0.0
    for run in range(runs + 1):
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 3):
            raise SystemExit(f"{command} exited with {child.returncode}")
        if run:
            walls.append(time.perf_counter() - start)
            peak = max(peak, usage.ru_maxrss / 1024)
    return walls, peak


def proportional_mb(pid: int) -> float:
    """Memory of a process and of those that it started, in MB: pages that several share count once (Linux)."""
    total = 0
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(int(1024 * proportional_mb(int(child))) for child in (task / "children").read_text().split())
    except (OSError, StopIteration):
        pass  # it ended meanwhile
    return total / 1024


def together(command: list[str]) -> tuple[float, float]:
    """Wall seconds of one run, and the peak of the memory of all its processes in MB, looked at ten times a second."""
    start, peak = time.perf_counter(), 0.0
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    while child.poll() is None:
        peak = max(peak, proportional_mb(child.pid))
        time.sleep(0.1)
    return time.perf_counter() - start, peak


def show(label: str, walls: list[float], peak: float, budget: str, beside: list[float] | None = None) -> None:
    low, middle, high = min(walls), statistics.median(walls), max(walls)
    ratio = f", {middle / statistics.median(beside):.1f}x imports alone" if beside else ""
    print(f"{label:44} {middle:6.2f} s ({low:.2f}-{high:.2f}), {peak:5.0f} MB{ratio}   [{budget}]")


def open_in_browser(page: Path, runs: int) -> list[float]:
    """Seconds from asking for the page to its scripts being done and it painted; empty without Playwright or a Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return []
    browser = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    if browser is None:
        return []
    seconds = []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for run in range(runs + 1):
            tab = started.new_page()
            begin = time.perf_counter()
            tab.goto(page.as_uri(), wait_until="load")
            tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            if run:
                seconds.append(time.perf_counter() - begin)
            tab.close()
        started.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", default=os.environ.get("ADVISOR_TRACES", str(ROOT.parent / "shared" / "traces")))
    parser.add_argument("--large", action="store_true", help="also the trace 30 times over (1.19 GB, needs tools/)")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as users have it: modules are compiled once, by the first run
    os.environ["ADVISOR_CACHE"] = "off"  # what is measured is reading; benchmarks/scale.py measures the cache
    python = sys.executable
    trace = Path(options.traces) / "h100_owlv2_large.json.gz"
    imports, peak = measure([python, "-c", IMPORTS], options.runs)
    show("python -c 'import numpy, duckdb, ...'", imports, peak, "beside")
    bare, peak = measure([python, "-c", "pass"], options.runs)
    show("python -c pass", bare, peak, "beside")
    walls, peak = measure([python, "-m", "advisor", "--help"], options.runs)
    show("advisor --help", walls, peak, "0.15 s")
    with tempfile.TemporaryDirectory() as folder:
        analyze = [python, "-m", "advisor", "analyze", "-f", "json"]
        walls, peak = measure([*analyze, str(trace)], options.runs)
        show("analyze owlv2 (55.6 MB), JSON", walls, peak, "2.4 s, 200 MB; 1.0 s after imports", imports)
        after = statistics.median(walls) - statistics.median(imports)
        print(f"{'  of which after imports':44} {after:6.2f} s")
        os.environ["ADVISOR_CACHE"] = str(Path(folder) / "cache")  # the rules are kept there, the trace is read
        walls, peak = measure([*analyze, "--no-cache", str(trace)], options.runs)
        show("  with the rules kept from an earlier run", walls, peak, "", imports)
        os.environ["ADVISOR_CACHE"] = "off"
        plain = Path(folder) / "owlv2.json"
        plain.write_bytes(gzip.decompress(trace.read_bytes()))
        speed = float(subprocess.check_output([python, "-c", READING, str(plain)], cwd=ROOT))
        print(f"{'reading alone, text to columns':44} {speed:6.0f} MB/s   [200 MB/s]")
        out = subprocess.check_output([python, "-c", STAGES, str(trace)], cwd=ROOT).split()
        loaded, read, frames, rules, replay = map(float, out)
        stages = (
            f"rulebook {loaded:.2f}, read {read:.2f}, frames {frames:.2f}, rules {rules:.2f}, replay {replay:.2f} s"
        )
        print(f"{'stages in one process':44} {stages}   [rules 0.3 s, replay 0.7 s]")
        page = Path(folder) / "report.html"
        html = [python, "-m", "advisor", "analyze", str(trace), "-f", "html", "-o", str(page), "--force"]
        walls, peak = measure(html, options.runs)
        show("analyze owlv2, HTML", walls, peak, "400 kB and the timeline's data", imports)
        print(f"{'  size of the page':44} {page.stat().st_size / 1e3:6.0f} kB")
        if seconds := open_in_browser(page, options.runs):
            middle = statistics.median(seconds)
            print(
                f"{'  opened in headless Chromium':44} {middle:6.2f} s ({min(seconds):.2f}-{max(seconds):.2f})   [1 s]"
            )
        if options.large:
            large = Path(folder) / "owlv2_30.json"
            tool = Path(options.traces).parent / "tools" / "repeat_trace.py"
            subprocess.check_call([python, str(tool), str(trace), "30", str(large)])
            walls, peak = measure([*analyze, str(large)], 1)
            show("analyze owlv2 30 times over (1.19 GB)", walls, peak, "15 s", imports)
            seconds, peak = together([*analyze, str(large)])
            print(f"{'  memory of all its processes together':44} {seconds:6.2f} s, {peak:5.0f} MB   [5 s, 600 MB]")
            os.environ["ADVISOR_PART_ALONE"] = "1"
            walls, peak = measure([*analyze, str(large)], 1)
            show("  read by one process", walls, peak, "", imports)


if __name__ == "__main__":
    main()
