"""``-f brief``: at most 2 kB of any trace, with the findings' numbers, and what to ask next."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from support.analyses import analysis, finding, hostile_analysis, together
from support.paths import ROOT
from support.real import AUDITED, NAMES
from support.traces import analysis as analyzed

from advisor.cli import main
from advisor.report import FORMATS, Options, brief, render
from advisor.report.documents.explain import choose
from advisor.results.several import Several

SAMPLE = ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz"


def lines(document: object) -> list[str]:
    text = render("brief", document, Options(), FORMATS)
    assert len(text) <= brief.MOST_BYTES
    return text.decode().splitlines()


def test_the_brief_of_a_trace() -> None:
    result = CliRunner().invoke(main, ["analyze", str(SAMPLE), "-f", "brief"])
    assert result.exit_code == 0, result.stderr
    first, headline, causes, limits, *rest = result.stdout.splitlines()
    assert first.endswith("rung0_baseline.json.gz: Tesla V100-SXM2-16GB (15.8 GiB) · 3 steps")
    assert headline.startswith("Training, eager, 3 steps: 55 % of the steady 80 ms")
    assert causes.startswith("step 80.0 ms: loader 54.7 %, compute 31.7 %")
    assert limits == "Limits are known for 34 % of kernel time, and not for 16.6 ms: no shapes recorded"
    assert rest[0] == "findings:"
    assert rest[1].startswith("1 HIGH data-loading/single-process-loader: saves 22.0–43.8 ms (28–55 %); ")
    assert rest[1].endswith("; at train.py:87 in <module>; fix: Load the batches in worker processes")
    assert rest[-1] == f"next: advisor analyze {SAMPLE} --explain 1"


def test_the_next_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a name; with blanks & 'quotes'.json.gz"
    (tmp_path / name).symlink_to(SAMPLE)
    monkeypatch.chdir(tmp_path)
    first = CliRunner().invoke(main, ["analyze", name, "-f", "brief"])
    words = shlex.split(first.stdout.splitlines()[-1].removeprefix("next: "))
    assert words[0] == "advisor"
    assert "num_workers" in CliRunner().invoke(main, words[1:]).stdout


def test_numbers_are_those_that_explain_takes() -> None:
    note = finding("a/noted", severity="note")
    made = analysis(note, finding("b/real"), finding("c/done", after=["b/real"], saving=None), finding("d/last"))
    shown = [line.split() for line in lines(made) if line[:1].isdigit()]
    assert [(words[0], words[2]) for words in shown] == [("2", "b/real:"), ("4", "d/last:")]
    assert [choose(made, words[0])[0].findings[0].rule + ":" for words in shown] == [words[2] for words in shown]
    assert lines(made)[-1].endswith("--explain 2")


def test_findings_that_do_not_fit_are_counted_from_the_end() -> None:
    many = [finding(f"category/rule-of-some-length-{number:02}", title="x" * 300) for number in range(10)]
    made = lines(analysis(*many))
    shown = [line for line in made if line[:1].isdigit()]
    counts = [int(line.split()[1]) for line in made if line.startswith("and ") and line.endswith(" more")]
    assert len(shown) + sum(counts) == 10
    assert len(shown) >= 3
    assert [line.split()[0] for line in shown] == [str(number) for number in range(1, len(shown) + 1)]


def test_without_findings_it_says_so_and_what_was_not_recorded() -> None:
    made = analysis()
    bare = replace(made, trace=replace(made.trace, features=replace(made.trace.features, shapes=False, stacks=False)))
    text = lines(bare)
    assert "findings: none" in text
    (absent,) = (line for line in text if line.startswith("not recorded: "))
    assert "shapes" in absent
    assert "stacks" in absent
    assert text[-1].endswith(" -v")


def test_texts_of_a_trace_stay_on_their_line_and_steer_nothing() -> None:
    text = "\n".join(lines(hostile_analysis()))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(line.startswith("forged line") for line in text.splitlines())


def test_several_traces_have_a_line_each_and_what_all_show_first() -> None:
    made = analysis(finding())
    traces = [replace(made, trace=replace(made.trace, path=f"rank{number}.json")) for number in range(40)]
    several = lines(Several(traces=traces, across=together(made)))
    assert several[0] == "40 traces of ranks of one run"
    shown = [line for line in several if line.startswith("rank")]
    (count,) = (int(line.split()[1]) for line in several if line.startswith("and "))
    assert len(shown) + count + sum(line.startswith("all ranks: ") for line in several) >= 40
    assert "1 HIGH data-loading/single-process-loader" in shown[0]


@pytest.mark.real
@pytest.mark.parametrize("name", [*NAMES, *AUDITED])
def test_no_real_trace_has_a_longer_one(name: str) -> None:
    made = analyzed(name)
    text = lines(made)
    assert any(line.startswith("findings:") for line in text)
    assert text[-1].startswith("next: ")
