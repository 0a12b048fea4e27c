"""What ``advisor record`` wrote of the program's settings: how it is read, and what findings say of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.hostile import EVIL

from advisor.errors import RuleError
from advisor.frames import SCHEMAS
from advisor.frames.settings import COLUMNS
from advisor.pipeline import analyze
from advisor.reading.program_settings import (
    KEY,
    NAMES,
    Autocast,
    Carried,
    Chain,
    Compiled,
    Loader,
    Mask,
    Optimizer,
    Recorded,
    Samples,
    WorkerLine,
    Zeros,
)
from advisor.report import Options, render
from advisor.report.redact import redact
from advisor.results.analysis import Analysis, Finding
from advisor.rulebook import Rulebook, load
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

WHOLE = Recorded(
    recorder="0.1.0",
    torch="2.13.0",
    cuda="12.8",
    driver="570.1",
    cores=8,
    threads=4,
    loaders=(
        Loader(0, batch_size=32, samples=1000, passes=2, file="train.py", line=42),
        Loader(4, pin_memory=True, prefetch=2, persistent=True, batch_size=64),
    ),
    optimizers=(Optimizer("AdamW", foreach=False, fused=None, tensors=62, file="train.py", line=50),),
    autocast=(Autocast("cuda", "bfloat16", "train.py", 60),),
    compiled=(Compiled("max-autotune", dynamic=True, fullgraph=True, file="train.py", line=20),),
    masks=(Mask(1400, 1400, 0.995, file="gat.py", line=31),),
    zeros=(Zeros("aten::mm", 4, 1_690_000, 64, 0.998, file="gin.py", line=82),),
    chains=(Chain(300, 0.0, 600, file="users.py", line=16),),
    carried=(Carried(2_560_000, 4),),
    step_looks=60,
    step_repeat=WorkerLine(0.4, "filterbank", "train.py", 77),
    step_draws=WorkerLine(0.3, "choice(p=…)", "train.py", 46),
    tf32_matmul=False,
    tf32_cudnn=True,
    cudnn_benchmark=True,
    deterministic=False,
    steps_by="turns",
    steps_loop="Service.answer(prompt)",
    steps_skipped=12,
    steps_behind=True,
    steps_burst=8,
    between_share=0.25,
    backwards_per_step=4.0,
    unprofiled_step_ms=(40.0, 44.0, 60.0),
    unprofiled_wait_ms=(0.0, 0.1, 22.5),
    own_cores=3.5,
    workers_cores=2.25,
    worker_lines=(WorkerLine(0.7, "load", "data.py", 42), WorkerLine(0.2, file="data.py", line=50)),
    samples=Samples(16, 0.75, "files", "PIL: load", 0.5, "__getitem__", "data.py", 42),
    batch_bytes=1 << 20,
    stacks="second pass",
)


def steps(waits: tuple[int, ...] = (20, 20, 20, 20), *, workers: tuple[int, ...] = (0,)) -> TraceBuilder:
    """A step for each wait (in ms), which each kind of *workers* repeats, and 30 ms of work behind."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for wait in waits:
        with b.step():
            for kind in workers:
                with b.loader(ms=wait, workers=kind):
                    pass
            with b.op("aten::mm", us=30_000):
                b.kernel("volta_sgemm_128x64_nn", ms=30)
    return b


def fields(settings: Recorded) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


def opened(folder: Path, trace: TraceBuilder | str | bytes) -> Trace:
    path = folder / "trace.json"
    text = trace.to_json() if isinstance(trace, TraceBuilder) else trace
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(str(path))


def with_settings(value: Any, *, behind: bool = False) -> str:
    """A trace whose root holds *value*, before or behind the events."""
    root = json.loads(steps().to_json())
    events = root.pop("traceEvents")
    parts = [{KEY: value}, {"traceEvents": events}]
    return json.dumps(root | {name: part for both in (parts[::-1] if behind else parts) for name, part in both.items()})


def found(trace: Trace, rule: str) -> Finding:
    (finding,) = analyze(trace, only=[rule]).findings
    return finding


# ---- reading


@pytest.mark.parametrize("behind", [False, True])
def test_what_the_recorder_writes_is_read_whole(tmp_path: Path, behind: bool) -> None:
    trace = opened(tmp_path, with_settings(msgspec.to_builtins(WHOLE), behind=behind))
    assert trace.metadata.recorded == WHOLE
    assert trace.metadata.torch == "2.13.0"


def test_a_file_that_is_cut_off_keeps_what_stands_before_its_events(tmp_path: Path) -> None:
    text = with_settings(msgspec.to_builtins(WHOLE))
    assert opened(tmp_path, text[: len(text) * 3 // 4]).metadata.recorded == WHOLE
    behind = with_settings(msgspec.to_builtins(WHOLE), behind=True)
    assert opened(tmp_path, behind[: behind.index('"cudnn_benchmark"')]).metadata.recorded is None


@pytest.mark.parametrize("value", [None, 1, "text", [], [{"cores": 8}], True, 1e400])
def test_what_is_no_object_is_nothing(tmp_path: Path, value: Any) -> None:
    assert opened(tmp_path, with_settings(value)).metadata.recorded is None


BAD = [None, "", "no number", [], {}, [[1]], {"a": 1}, -1, 1 << 70, 10**400, 1e308, float("nan"), -1e400]


def test_lines_of_workers_without_a_share_or_a_place_are_left_out(tmp_path: Path) -> None:
    line = {"share": 0.5, "function": "load", "file": "data.py", "line": 42}
    wrong = [{**line, "share": 0}, {**line, "share": 1.5}, {**line, "file": ""}, {**line, "file": 3}, {"share": 0.5}, 7]
    settings = opened(tmp_path, with_settings({"worker_lines": [*wrong, line], "own_cores": -1})).metadata.recorded
    assert settings is not None
    assert settings.worker_lines == (WorkerLine(0.5, "load", "data.py", 42),)
    assert settings.own_cores is None


@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:20])
def test_values_that_cannot_be_are_left_out_one_by_one(tmp_path: Path, value: Any) -> None:
    names = [
        "cores",
        "threads",
        "backwards_per_step",
        "unprofiled_step_ms",
        "loaders",
        "optimizers",
        "autocast",
        "compiled",
    ]
    wrong = dict.fromkeys(names, value) | {"torch": value, "stacks": [value], "tf32_matmul": [value]}
    settings = opened(tmp_path, with_settings(wrong | {"cudnn_benchmark": True})).metadata.recorded
    assert settings is not None
    assert settings.cores is settings.threads is settings.backwards_per_step is None
    assert settings.unprofiled_step_ms == settings.loaders == settings.optimizers == settings.autocast == ()
    assert settings.stacks is settings.tf32_matmul is None
    assert settings.cudnn_benchmark is True


@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:20])
def test_entries_of_lists_are_read_the_same_way(tmp_path: Path, value: Any) -> None:
    wrong = {
        "loaders": [
            {"workers": value},
            {"workers": 2, "prefetch": value, "batch_size": value, "file": value, "line": value},
        ],
        "optimizers": [{"kind": "SGD", "file": "a.py", "line": value, "foreach": [value]}],
        "unprofiled_step_ms": [value, 40],
    }
    settings = opened(tmp_path, with_settings(wrong)).metadata.recorded
    assert settings is not None
    assert [(one.workers, one.prefetch, one.batch_size, one.line) for one in settings.loaders if one.workers == 2] == [
        (2, None, None, 0)
    ]
    assert settings.optimizers == (Optimizer("SGD", file="a.py"),)
    assert settings.unprofiled_step_ms == (40.0,)


@pytest.mark.parametrize("waits", [[0.0, "x", 3.0], [-1.0, 0.0], "0", [None]], ids=str)
def test_waits_of_which_one_is_no_time_tell_nothing(waits: Any, tmp_path: Path) -> None:
    """Each belongs to a step: without one of them nobody knows to which."""
    settings = opened(tmp_path, with_settings({"unprofiled_wait_ms": waits})).metadata.recorded
    assert settings is not None
    assert settings.unprofiled_wait_ms == ()


def test_a_flag_that_is_none_says_nothing_of_its_loader(tmp_path: Path) -> None:
    loaders = [{"workers": 1}, {"workers": 2, "pin_memory": "yes"}, {"workers": 3, "persistent": [True]}]
    settings = opened(tmp_path, with_settings({"loaders": loaders})).metadata.recorded
    assert settings is not None
    assert settings.loaders == (Loader(1),)


def test_lists_and_texts_are_bounded(tmp_path: Path) -> None:
    wrong = {
        "loaders": [{"workers": 1}] * 100_000,
        "optimizers": [{"kind": "x" * 100_000}, {"kind": "\x1b[2J\u202eSGD\n"}],
        "unprofiled_step_ms": [1.0] * 100_000,
        "torch": EVIL,
    }
    settings = opened(tmp_path, with_settings(wrong)).metadata.recorded
    assert settings is not None
    assert len(settings.loaders) == 64
    assert len(settings.unprofiled_step_ms) == 1000
    assert [one.kind for one in settings.optimizers] == ["x" * 100, "[2JSGD"]
    assert len(settings.torch or "") <= 40


# ---- frames


def test_a_trace_without_settings_says_so(tmp_path: Path) -> None:
    trace = opened(tmp_path, steps())
    row = trace.frame("trace").iloc[0]
    assert not row["settings_recorded"]
    assert row[[column.name for column in COLUMNS[1:]]].isna().all()
    settings = trace.frame("settings")
    assert (len(settings), list(settings.columns)) == (0, SCHEMAS["settings"].names())
    assert found(trace, "data-loading/single-process-loader").settings == []


def test_the_columns_of_the_trace(tmp_path: Path) -> None:
    row = opened(tmp_path, steps().ran_with(**fields(WHOLE))).frame("trace").iloc[0]
    assert (row["settings_recorded"], row["cores"], row["threads"]) == (True, 8, 4)
    # It waits for the loader without workers: the other is one of evaluation, say.
    assert (row["loader_workers"], row["loader_batch_size"], row["loader_pin_memory"]) == (0, 32, False)
    assert row["optimizer_fused"] == False  # noqa: E712  (not NULL)
    assert (row["autocast"], row["compile_modes"]) == ("bfloat16", "max-autotune")
    assert (row["tf32_matmul"], row["tf32_cudnn"], row["cudnn_benchmark"], row["deterministic"]) == (
        False,
        True,
        True,
        False,
    )
    assert row["backwards_per_step"] == 4
    # 50 ms under the profiler against a median of 44.
    assert row["unprofiled_step_ns"] == 44e6
    # By the shortest, 50 against 40, it is more.
    assert row["profiled_excess_share"] == pytest.approx(50 / 44 - 1)
    assert row["stacks_apart"]


def test_the_loaders_that_are_waited_for(tmp_path: Path) -> None:
    loaders = [Loader(0, batch_size=1), Loader(2, batch_size=8), Loader(4, batch_size=8)]
    row = opened(tmp_path, steps(workers=(0, 4)).ran_with(loaders=loaders)).frame("trace").iloc[0]
    assert row["loader_workers"] == 0  # both kinds are waited for as long: those without workers
    row = opened(tmp_path, steps(workers=(4,)).ran_with(loaders=loaders)).frame("trace").iloc[0]
    assert str(row["loader_workers"]) == "<NA>"  # 2 or 4
    assert row["loader_batch_size"] == 8


# Waits of 90, 10, 20 and 40 ms: the first step is left out, and the median of the others is 20 ms, of a step of 50. Without
# its wait each step is 30 ms.
def test_what_advice_is_worked_out_from(tmp_path: Path) -> None:
    row = opened(tmp_path, steps((90, 10, 20, 40))).frame("trace").iloc[0]
    assert row["loader_ns"] == 20e6
    assert row["step_ns"] == 50e6
    assert row["fed_step_ns"] == 30e6


def test_a_row_for_each_setting(tmp_path: Path) -> None:
    frame = opened(tmp_path, steps().ran_with(**fields(WHOLE))).frame("settings")
    assert set(frame["name"]) == set(NAMES)
    rows = [tuple(row) for row in frame[["of", "number", "name", "value", "file", "line"]].astype(object).to_numpy()]
    assert ("DataLoader", 1, "num_workers", "4") in [row[:4] for row in rows]
    assert ("AdamW", 0, "foreach", "False", "train.py", 50) in rows
    assert ("torch.compile", 0, "mode", "'max-autotune'", "train.py", 20) in rows
    assert frame[frame["name"] == "torch.autocast"]["value"].tolist() == ["bfloat16"]
    assert frame[frame["name"] == "backward passes per optimizer step"]["value"].tolist() == ["4"]


def test_paths_lose_what_could_name_a_person(tmp_path: Path) -> None:
    loaders = [
        Loader(0, file="/home/alice/secret/train.py", line=1),
        Loader(0, file="C:\\Users\\alice\\train.py", line=2),
    ]
    trace = opened(tmp_path, steps().ran_with(cores=8, loaders=loaders))
    assert sorted(set(trace.frame("settings")["file"].dropna())) == ["secret/train.py", "train.py"]
    assert b"alice" not in analyze(trace).to_json()


# ---- what a finding says


LOADER = Loader(0, file="/srv/runs/exp/train.py", line=42)


@pytest.fixture
def analysis(tmp_path: Path) -> Analysis:
    trace = opened(tmp_path, steps().ran_with(cores=8, loaders=[LOADER]))
    return analyze(trace, only=["data-loading/single-process-loader"])


# 20 ms of loading beside 30 ms: one worker keeps up, and one is to spare.
SAID = "DataLoader(num_workers=0) at /srv/runs/exp/train.py:42 → 2"


def test_a_finding_says_the_setting_and_what_to_set(analysis: Analysis) -> None:
    (setting,) = analysis.findings[0].settings
    assert str(setting) == SAID
    assert (setting.of, setting.name, setting.value, setting.advice) == ("DataLoader", "num_workers", "0", "2")
    assert "loading takes 20 ms, and the step 30 ms without the wait" in setting.because
    assert "on 8 cores" in setting.because
    assert Analysis.from_json(analysis.to_json()) == analysis


@pytest.mark.parametrize("form", ["text", "html", "markdown"])
def test_every_report_shows_it(analysis: Analysis, form: str) -> None:
    report = render(form, analysis, Options(verbosity=1)).decode()
    flat = " ".join(report.replace("<wbr>", "").split())
    assert "DataLoader(num_workers=0) at /srv/runs/exp/train.py:42" in flat
    assert "→ 2: loading takes 20 ms" in flat.replace("</code>", "").replace("`", "")


def test_a_redacted_report_shows_no_folder(analysis: Analysis) -> None:
    (setting,) = redact(analysis).findings[0].settings
    assert str(setting) == "DataLoader(num_workers=0) at train.py:42 → 2"
    assert b"/srv" not in redact(analysis).to_json()


def test_an_analysis_of_before_has_none(analysis: Analysis) -> None:
    text = json.loads(analysis.to_json())
    del text["findings"][0]["settings"]
    assert Analysis.from_json(json.dumps(text)).findings[0].settings == []


def test_text_of_the_trace_stays_text(tmp_path: Path) -> None:
    wrong = {"loaders": [{"workers": 0, "file": EVIL, "line": 1}], "optimizers": [{"kind": EVIL, "file": EVIL}]}
    analysis = analyze(opened(tmp_path, with_settings(wrong)))
    assert any(finding.settings for finding in analysis.findings)
    page = render("html", analysis, Options()).decode()
    assert "<script>window.owned" not in page
    assert "<img src=x" not in page
    assert "\x1b" not in render("text", analysis, Options(color=False)).decode()


# ---- rules of one's own


RULE = """
id = "team/loader"
since = "0.1"
title = "Batches are waited for"
why = "They are late."
confidence = "certain"
severity = "low"
[match]
frame = "loader"
[fix]
title = "Load them sooner"
effort = "a line"
before = "a = 1"
after = "a = 2"
verify = "they are not late"
"""


def book(folder: Path, settings: str, rule: str = RULE, stem: str = "team/loader") -> Rulebook:
    path = folder / "rules" / f"{stem}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rule + settings)
    return load([folder / "rules"])


def said(folder: Path, settings: str, **recorded: Any) -> list[str]:
    trace = opened(folder, steps().ran_with(**recorded))
    (finding,) = analyze(trace, book(folder, settings)).findings
    return [str(one) + (f": {one.because}" if one.because else "") for one in finding.settings]


def test_a_rule_chooses_settings_and_values(tmp_path: Path) -> None:
    entry = '[[settings]]\nname = "num_workers"\nwhere = "%s"\nadvice = "%s"\nbecause = "{value} of {cores}"\n'
    recorded: dict[str, Any] = {"cores": 6, "loaders": [Loader(0), Loader(4)]}
    every = ["DataLoader(num_workers=0) → 3: 0 of 6", "DataLoader(num_workers=4) → 3: 4 of 6"]
    assert said(tmp_path, entry % ("true", "cores / 2"), **recorded) == every
    assert said(tmp_path, entry % ("workers > 0", "cores / 2"), **recorded) == every[1:]
    assert said(tmp_path, entry % ("workers > cores", "1"), **recorded) == []
    # What is set already is not advised, nor is what is not known; neither has a reason to give.
    assert said(tmp_path, entry % ("workers > 0", "4"), **recorded) == ["DataLoader(num_workers=4)"]
    assert said(tmp_path, entry % ("workers > 0", "threads"), **recorded) == ["DataLoader(num_workers=4)"]
    assert said(tmp_path, entry % ("workers > 0", "1 / 0"), **recorded) == ["DataLoader(num_workers=4)"]


def test_a_setting_is_said_once_with_the_words_that_there_are(tmp_path: Path) -> None:
    entries = (
        '[[settings]]\nname = "num_workers"\n[[settings]]\nname = "num_workers"\nbecause = "{cores:.1f}, {file}"\n'
    )
    assert said(tmp_path, entries, cores=6, loaders=[Loader(0), Loader(0)]) == [
        "DataLoader(num_workers=0): 6.0, unknown"
    ]


def test_a_setting_that_fails_leaves_the_finding(tmp_path: Path) -> None:
    entry = '[[settings]]\nname = "pin_memory"\nadvice = "CAST(value AS BIGINT)"\nbecause = "of the value"\n'
    trace = opened(tmp_path, steps().ran_with(loaders=[Loader(0)]))
    analysis = analyze(trace, book(tmp_path, entry))
    assert [finding.settings for finding in analysis.findings] == [[]]
    (failure,) = analysis.verdicts.error
    assert failure.message.startswith("settings: ")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('name = "workers"', "settings.name: there is no 'workers'; nearest: num_workers"),
        ('where = "true"', "settings.name: is missing"),
        ('name = "fused"\nadvice = "true"', "settings.because: is missing"),
        ('name = "fused"\nbecause = "of {core}"', "settings.because: no column 'core'"),
        ('name = "fused"\nbecause = "of {cores"', "settings.because: figures of `trace`"),
        ('name = "fused"\nwhere = "valu = 1"', "settings.where: no column 'valu'"),
        ('name = "fused"\nwhere = "value"', "settings.where: must be true or false"),
        ('name = "fused"\nadvice = "count(*)"\nbecause = "x"', "settings.advice: "),
        ('name = "fused"\nif = "true"', "settings.if: no such key"),
    ],
)
def test_problems_of_a_rule_are_named(tmp_path: Path, entry: str, problem: str) -> None:
    with pytest.raises(RuleError) as caught:
        book(tmp_path, f"[[settings]]\n{entry}\n")
    assert any(problem in one for one in caught.value.problems), caught.value.problems


def test_a_profile_rule_says_no_settings(tmp_path: Path) -> None:
    rule = RULE.replace("team/loader", "profile/loader")
    with pytest.raises(RuleError, match="settings: are for findings"):
        book(tmp_path, '[[settings]]\nname = "fused"\n', rule, "profile/loader")
