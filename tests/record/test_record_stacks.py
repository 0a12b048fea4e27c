"""From the pass with stacks to the one with the timings: what is alike gets its line, what is not gets none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.reading import stream
from advisor.record import stacks
from advisor.record.lines import MARK
from advisor.record.places import begin
from advisor.record.stacks import carry_over, frame_text

LINES = ["job.py(10): main", "job.py(20): f", "job.py(30): g"]


def trace(folder: Path, name: str, steps: list[list[Any]], thread: int = 1) -> stream.Recorded:
    """A trace of *steps*: each a list of operators in order, alone or as (line, operators inside it)."""
    events: list[dict[str, Any]] = []
    now = 0.0

    def span(kind: str, called: str, start: float, end: float, **args: Any) -> None:
        events.append(
            {
                "ph": "X",
                "cat": kind,
                "name": called,
                "pid": 1,
                "tid": thread,
                "ts": start,
                "dur": end - start,
                "args": args,
            }
        )

    def play(items: list[Any]) -> None:
        nonlocal now
        for item in items:
            start = now
            now += 1
            if isinstance(item, tuple) and isinstance(item[0], int):
                play(item[1])
                now += 1
                span("cpu_op", f"{MARK}{item[0]}", start, now)
            elif isinstance(item, tuple):
                span("cpu_op", item[0], start, now + 1, **{"Input Dims": item[1]})
                now += 1
            else:
                span("cpu_op", item, start, now + 1)
                now += 1
            now += 1

    for number, items in enumerate(steps):
        start = now
        now += 1
        play(items)
        now += 1
        span("user_annotation", f"ProfilerStep#{number}", start, now)
        now += 1
    path = folder / name
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return stream.read(path)


def places(timed: stream.Recorded, stacked: stream.Recorded) -> list[str]:
    """The operators of the timed trace in order of time, each with its stack."""
    rows = carry_over(timed, stacked, LINES)[0]["op"]
    table = timed.tables["op"]
    order = table["ts"].argsort()
    return [f"{timed.names[table['name'][at]]} {rows[at]}".strip() for at in order.tolist()]


def test_the_same_steps_are_carried_over_one_to_one(tmp_path: Path) -> None:
    timed = trace(tmp_path, "t", [["mul", "add", "mul"]] * 3)
    stacked = trace(tmp_path, "s", [[(0, ["mul", "add"]), (1, ["mul"])]])
    assert places(timed, stacked) == ["mul job.py(10): main", "add job.py(10): main", "mul job.py(20): f"] * 3


def test_frames_stand_innermost_first(tmp_path: Path) -> None:
    timed = trace(tmp_path, "t", [["mul"]])
    stacked = trace(tmp_path, "s", [[(0, [(2, ["mul"])])]])
    assert places(timed, stacked) == ["mul job.py(30): g;job.py(10): main"]


def test_the_likest_of_several_steps_is_taken(tmp_path: Path) -> None:
    """Every other step logs: its copy is in the second step with stacks, and only there."""
    timed = trace(tmp_path, "t", [["mul", "copy", "add"], ["mul", "add"]])
    stacked = trace(tmp_path, "s", [[(0, ["mul"]), (1, ["add"])], [(0, ["mul"]), (2, ["copy"]), (1, ["add"])]])
    assert places(timed, stacked) == [
        "mul job.py(10): main", "copy job.py(30): g", "add job.py(20): f",
        "mul job.py(10): main", "add job.py(20): f",
    ]  # fmt: skip


def test_where_the_order_differs_only_what_has_one_place_is_carried_over(tmp_path: Path) -> None:
    timed = trace(tmp_path, "t", [["a", "sin", "exp", "tan", "exp", "b"]])
    stacked = trace(tmp_path, "s", [[(0, ["a"]), (1, ["exp"]), (2, ["sin", "exp"]), (0, ["b"])]])
    # exp is called in two lines, and which of them ran is not certain; tan was not called at all.
    assert places(timed, stacked) == [
        "a job.py(10): main",
        "sin job.py(30): g",
        "exp",
        "tan",
        "exp",
        "b job.py(10): main",
    ]


def test_a_step_in_whose_middle_the_marking_of_lines_ended_takes_no_line_from_what_another_step_marked(
    tmp_path: Path,
) -> None:
    """A gradient clip runs in most steps; the one with stacks that went without it is marked up to its first operator only."""
    timed = trace(tmp_path, "t", [["load", "mm", "norm", "step", "item"]])
    whole = [(0, ["load"]), (1, ["mm"]), (2, ["norm"]), (2, ["scale"]), (0, ["step"]), (1, ["item"])]
    ended = [(0, ["load"]), "mm", "norm", "step", "item"]
    stacked = trace(tmp_path, "s", [whole, ended])
    assert places(timed, stacked) == [
        "load job.py(10): main", "mm job.py(20): f", "norm job.py(30): g", "step job.py(10): main", "item job.py(20): f",
    ]  # fmt: skip


def test_shapes_tell_operators_of_one_name_apart(tmp_path: Path) -> None:
    small, large = ("mm", [[2, 2]]), ("mm", [[9, 9]])
    timed = trace(tmp_path, "t", [["x", large, small, "y"]])
    stacked = trace(tmp_path, "s", [[(0, ["z"]), (1, [small]), (2, [large])]])
    assert places(timed, stacked) == ["x", "mm job.py(30): g", "mm job.py(20): f", "y"]


def test_another_thread_gives_nothing(tmp_path: Path) -> None:
    timed = trace(tmp_path, "t", [["mul"]], thread=1)
    stacked = trace(tmp_path, "s", [[(0, ["mul"])]], thread=2)
    assert places(timed, stacked) == ["mul"]


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("<built-in function linear>", None),
        ("nn.Module: Linear_0", None),
        ("/venv/lib/python3.11/site-packages/mylib/ops.py(7): call", ("site-packages/mylib/ops.py(7): call", False)),
        ("/somewhere/else/job.py(3): <module>", ("job.py(3): <module>", True)),
        ("/home/alice/project/job.py(3): f", ("job.py(3): f", True)),
    ],
)
def test_whose_a_frame_is_is_told_by_where_its_file_lies(name: str, frame: tuple[str, bool] | None) -> None:
    assert frame_text(name) == frame


def test_the_standard_library_and_the_working_directory_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json as standard

    text, mine = frame_text(f"{standard.__file__}(1): loads") or ("", True)
    assert not mine
    assert text.endswith("/json/__init__.py(1): loads")
    assert text.startswith("/lib/python3.")
    monkeypatch.chdir(tmp_path)
    begin()
    assert frame_text(f"{tmp_path}/pkg/mod.py(5): f") == ("pkg/mod.py(5): f", True)


def test_long_python_before_an_operator_has_the_line_that_most_of_it_ran(tmp_path: Path) -> None:
    """In the pass for stacks 100 us pass between mul and add: 20 on line 10, 70 on line 20, 10 outside of the user's code."""
    timed = trace(tmp_path, "t", [["mul", "add", "sub"]])
    events = [
        {"name": "ProfilerStep#0", "cat": "user_annotation", "ts": 0, "dur": 300},
        {"name": f"{MARK}0", "ts": 1, "dur": 40},
        {"name": "mul", "ts": 10, "dur": 10},
        {"name": f"{MARK}1", "ts": 42, "dur": 70},
        {"name": "add", "ts": 120, "dur": 10},
        {"name": "sub", "ts": 170, "dur": 10},  # 40 us behind add: no stretch of its own
    ]
    whole = [{"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1} | event for event in events]
    (tmp_path / "s").write_text(json.dumps({"schemaVersion": 1, "traceEvents": whole}))
    before = carry_over(timed, stream.read(tmp_path / "s"), LINES)[1]["op"]
    assert [(timed.names[code], text) for code, text in zip(timed.tables["op"]["name"], before, strict=True)] == [
        ("mul", ""),
        ("add", "job.py(20): f"),
        ("sub", ""),
    ]


def test_what_wrote_files_before_an_operator_is_noted(tmp_path: Path) -> None:
    """In the pass for stacks torch.save has 80 of the 100 us between mul and add; with the timings there are 200 us between."""
    save = "/venv/lib/python3.12/site-packages/torch/serialization.py(944): save"
    record = "<built-in method write_record of pybind11_builtins object at 0x7f31>"
    events = [
        {"name": "ProfilerStep#0", "cat": "user_annotation", "ts": 0, "dur": 300},
        {"name": f"{MARK}0", "ts": 1, "dur": 20},
        {"name": "mul", "ts": 10, "dur": 10},
        {"name": f"{MARK}1", "ts": 22, "dur": 95},
        {"name": save, "cat": "python_function", "ts": 25, "dur": 80},
        {"name": record, "cat": "python_function", "ts": 30, "dur": 60},
        {"name": "add", "ts": 120, "dur": 10},
    ]
    whole = [{"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1} | event for event in events]
    (tmp_path / "s").write_text(json.dumps({"schemaVersion": 1, "traceEvents": whole}))
    spans = [
        {"name": "ProfilerStep#0", "cat": "user_annotation", "ts": 0, "dur": 300},
        {"name": "mul", "ts": 10, "dur": 10},
        {"name": "add", "ts": 220, "dur": 10},
    ]
    timed = [{"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1} | event for event in spans]
    (tmp_path / "t").write_text(json.dumps({"schemaVersion": 1, "traceEvents": timed}))
    notes = carry_over(stream.read(tmp_path / "t"), stream.read(tmp_path / "s"), LINES)[2]["op"]
    assert notes == ["", f"0.800 of 200000 ns in torch.save;{frame_text(save)[0]};job.py(20): f"]  # type: ignore[index]


def test_where_a_loop_ran_more_often_operators_are_placed_by_those_beside_them(tmp_path: Path) -> None:
    """A loop over a sentence: two words when stacks were recorded, three when times were; the sum occurs twice."""
    turn = [(1, ["pick", "sum"]), (2, ["sum"])]
    stacked = trace(tmp_path, "s", [[(0, ["a"]), *turn, *turn, (0, ["b"])]])
    timed = trace(tmp_path, "t", [["a", *["pick", "sum", "sum"] * 3, "b"]])
    assert places(timed, stacked) == [
        "a job.py(10): main",
        *["pick job.py(20): f", "sum job.py(20): f", "sum job.py(30): g"] * 3,
        "b job.py(10): main",
    ]  # fmt: skip


def test_operators_that_stand_alike_in_two_places_get_neither(tmp_path: Path) -> None:
    """Twenty calls of one operator, half of them in another line: in the middle nothing tells which."""
    stacked = trace(tmp_path, "s", [[(0, ["a"]), (1, ["sum"] * 40), (0, ["c"]), (2, ["sum"] * 40), (0, ["b"])]])
    timed = trace(tmp_path, "t", [["a", *["sum"] * 41, "c", *["sum"] * 41, "b"]])
    found = places(timed, stacked)
    assert found[20] == found[62] == "sum"
    assert found[1] == "sum job.py(20): f"
    assert found[-2] == "sum job.py(30): g"


def test_a_stack_without_its_outer_frames_is_that_which_has_them() -> None:
    """Of two recorded steps the first lacked the lines around the loop: all that both ran had two stacks, and none was sure."""
    inner = "metrics.py(21): update;before.py(33): evaluate"
    whole = f"{inner};before.py(50): main;before.py(59): <module>"
    between = f"{inner};before.py(50): main"
    assert stacks._whole({inner, between, whole, "", "metrics.py(21): update_all"}) == {inner: whole, between: whole}
    # Called from two places: neither is certain.
    assert stacks._whole({inner, f"{inner};a.py(1): main", f"{inner};b.py(2): main"}) == {}
