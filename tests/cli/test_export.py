"""The evidence as a trace of its own: it holds the shown step, says which rule, and reads back as what it was cut from."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.paths import ROOT
from support.traces import analysis, real_trace

from advisor.cli import main
from advisor.pipeline import analyze
from advisor.testing import TraceBuilder
from advisor.trace import read

SAMPLE = ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz"


def exported(trace: str, path: Path, *words: str) -> dict[str, object]:
    result = CliRunner().invoke(main, ["export", trace, "--findings", "-o", str(path), *words])
    assert result.exit_code == 0, result.output
    data = path.read_bytes()
    found: dict[str, object] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


def test_each_finding_has_a_track_and_its_evidence_says_so(tmp_path: Path) -> None:
    page = exported(str(SAMPLE), tmp_path / "e.json.gz")
    events = page["traceEvents"]
    assert isinstance(events, list)
    rules = [finding.rule for finding in analyze(read(str(SAMPLE))).findings]
    tracks = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert [f"{number}. {rule}" for number, rule in enumerate(rules, 1)] == [
        name for name in tracks if name[0].isdigit()
    ]
    marked = {event["args"]["advisor"] for event in events if "advisor" in event.get("args", {})}
    assert {"data-loading/single-process-loader", "transfer/pageable-copy"} <= marked <= set(rules)
    waits = [
        e
        for e in events
        if e.get("args", {}).get("advisor") == "data-loading/single-process-loader" and e["cat"] == "advisor"
    ]
    step = next(event for event in events if event["name"].startswith("ProfilerStep#"))
    # Of an 80 ms step the loader owns 43.8 ms: the causes' track says so to the us.
    assert sum(event["dur"] for event in waits) / step["dur"] == pytest.approx(0.547, abs=0.003)


@pytest.mark.real
@pytest.mark.parametrize("name", [pytest.param("h100_owlv2_large", marks=pytest.mark.study), "mi300_bert_small"])
def test_what_is_written_reads_back_as_the_step_it_was_cut_from(name: str, tmp_path: Path) -> None:
    whole, path = real_trace(f"{name}.json.gz"), tmp_path / "e.json.gz"
    exported(whole, path)
    before, after = analysis(name), analyze(read(str(path)))
    assert before.summary.step_ms is not None
    assert after.summary.step_ms is not None
    # Alone, a step's Python behind its last work is the tail of the recording; among its like it is part of the step.
    assert after.summary.window_ms == pytest.approx(before.summary.step_ms.median, rel=0.01)
    first = before.findings[0]
    (same,) = [finding for finding in after.findings if finding.rule == first.rule]
    assert same.cost_ms == pytest.approx(first.cost_ms, rel=0.1)  # of this step, and of all


def test_the_same_trace_gives_the_same_bytes_and_nothing_private(tmp_path: Path) -> None:
    b = TraceBuilder(metadata={"host_name": "secret-host", "env": {"TOKEN": "secret"}})
    with b.step(), b.python("/home/someone/project/train.py(3): main"), b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", us=500)
    trace = str(b.write(tmp_path / "t.json"))
    for name in ("one.json", "two.json"):
        exported(trace, tmp_path / name)
    text = (tmp_path / "one.json").read_text()
    assert text == (tmp_path / "two.json").read_text()
    assert "someone" not in text
    assert "secret" not in text


def test_what_exists_is_kept_and_mistakes_are_named(tmp_path: Path) -> None:
    (tmp_path / "there.json").write_text("mine")
    for output, said in (("there.json", "exists"), ("no/where.json", "no folder")):
        result = CliRunner().invoke(main, ["export", str(SAMPLE), "-o", str(tmp_path / output)])
        assert result.exit_code == 2
        assert said in result.output
    assert (tmp_path / "there.json").read_text() == "mine"
    result = CliRunner().invoke(main, ["export", str(tmp_path / "there.json"), "-o", str(tmp_path / "x.json")])
    assert result.exit_code == 3
