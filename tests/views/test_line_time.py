"""Division of a program's time on the CPU by line. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import advisor
from advisor.report import Options, render
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder


def stack(line: int, function: str) -> dict[str, str]:
    return {"Call stack": f"run.py({line}): {function};run.py(15): main"}


def analyzed(folder: Path, b: TraceBuilder) -> Analysis:
    return advisor.analyze(advisor.read(str(b.write(folder / "t.json"))))


def trained(*, known: bool = True) -> TraceBuilder:
    """Each of two steps: 100 us of an activation, 400 of a product, 300 of the product's backward pass, 200 of Python behind it.

    Of the Python nothing but its length was recorded.
    """
    b = TraceBuilder(None, host_us=0)
    for number in range(2):
        with b.step():
            with b.op("aten::relu", us=100, args=stack(4, "forward")):
                pass
            with b.op("aten::mm", us=400, seq=number, args=stack(3, "forward") if known else None):
                pass
            with b.backward("MmBackward0", number), b.op("aten::mm", us=300):
                pass
            b.idle(us=200)
    return b


def test_the_backward_pass_is_of_the_line_of_its_forward_operator(tmp_path: Path) -> None:
    parts = analyzed(tmp_path, trained()).summary.host_time
    assert [(part.kind, part.where, round(part.ms * 1000), round(part.share, 2)) for part in parts] == [
        ("line", "run.py:3 forward", 700, 0.7),
        ("line", "run.py:4 forward", 100, 0.1),
        ("others", "", 200, 0.2),
    ]


def test_the_screen_names_lines_by_time(tmp_path: Path) -> None:
    analysis = analyzed(tmp_path, trained())
    screen = render("text", analysis, Options(width=80)).decode()
    assert "time by line 1.00 ms: run.py:3 forward 70 %, :4 10 %, other 20 %\n" in screen
    whole = render("text", analysis, Options(width=200, verbosity=1)).decode()
    assert (
        "By line, 1.00 ms a step: run.py:3 forward 700 µs (70.0 %), run.py:4 forward 100 µs (10.0 %), others 200 µs."
        in whole
    )


def test_where_most_lines_are_unknown_none_is_said(tmp_path: Path) -> None:
    assert analyzed(tmp_path, trained(known=False)).summary.host_time == []


def test_a_loaders_wait_is_of_the_loop_and_its_lines_are_not_those_of_the_step(tmp_path: Path) -> None:
    """600 us of 1,000 are the loader's, under the loop's line; warm-up outside of the steps counts for nothing."""
    b = TraceBuilder(None, host_us=0)
    with b.op("aten::mm", us=5000, args=stack(2, "build")):
        pass
    for _ in range(2):
        with b.step():
            with b.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", us=600, args=stack(9, "main")):
                pass
            with b.op("aten::mm", us=400, args=stack(3, "forward")):
                pass
    parts = analyzed(tmp_path, b).summary.host_time
    assert [(part.where, round(part.share, 2)) for part in parts] == [("run.py:9 main", 0.6), ("run.py:3 forward", 0.4)]


def test_a_backward_pass_whose_forward_was_not_recorded_is_of_no_line(tmp_path: Path) -> None:
    """The first step's product lies before the recording: of 2,000 us its 300 are of others, and 300 behind it of the line.

    The sum of gradients at the same place, 100 us in each step, is of the line that began the pass.
    """
    b = TraceBuilder(None, host_us=0)
    for number in range(2):
        with b.step():
            with b.op("aten::relu", us=400, args=stack(4, "forward")):
                pass
            if number:
                with b.op("aten::mm", us=100, seq=7, args=stack(3, "forward")):
                    pass
            begun = {"Call stack": "run.py(15): main"}
            node = "autograd::engine::evaluate_function: MmBackward0"
            with b.op(node, seq=6 + number, fwd_thread=1, args=begun), b.op("aten::mm", us=300, args=begun):
                pass
            node = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
            with b.op(node, seq=90 + number, fwd_thread=1, args=begun), b.op("aten::add_", us=100, args=begun):
                pass
            b.idle(us=100 if number else 200)
    parts = analyzed(tmp_path, b).summary.host_time
    assert [(part.where, round(part.share, 3)) for part in parts] == [
        ("run.py:4 forward", 0.4),
        ("run.py:3 forward", 0.2),
        ("run.py:15 main", 0.1),
        ("", 0.3),
    ]


def test_a_forward_pass_that_a_checkpoint_runs_again_is_of_its_own_line(tmp_path: Path) -> None:
    """Of 1,000 us: 100 us forward at line 5, 500 in its backward node, in which line 3 runs again for 400; 400 of another line."""
    b = TraceBuilder(None, host_us=0)
    for number in range(2):
        with b.step():
            with b.op("aten::relu", us=400, args=stack(4, "forward")):
                pass
            with b.op("aten::mm", us=100, seq=number, args=stack(5, "forward")):
                pass
            node = "autograd::engine::evaluate_function: MmBackward0"
            begun = {"Call stack": "run.py(15): main"}
            with b.op(node, seq=number, fwd_thread=1, args=begun):
                with b.op("aten::addmm", us=400, args={"Call stack": "run.py(3): block;run.py(15): main"}):
                    pass
                with b.op("aten::mm", us=100, args=begun):
                    pass
    parts = analyzed(tmp_path, b).summary.host_time
    assert [(part.where, round(part.share, 2)) for part in parts] == [
        ("run.py:4 forward", 0.4),
        ("run.py:3 block", 0.4),
        ("run.py:5 forward", 0.2),
    ]
