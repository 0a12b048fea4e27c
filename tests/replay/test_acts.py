"""Acts: findings whose fix is the same change are one line of the plan, with one price; worked out by hand on built traces."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.paths import ROOT
from support.traces import analysis

import advisor
from advisor.engine.acts import acts_of, bundles, with_lines
from advisor.errors import RuleError
from advisor.report import Options, render
from advisor.results.analysis import Analysis, Finding, Place, Saving
from advisor.rulebook import builtin_rules_dir, load
from advisor.rulebook.rule import Fix
from advisor.testing import TraceBuilder

A100 = "NVIDIA A100-SXM4-80GB"
LAUNCHES, CHAIN = "gpu-idle/launch-bound", "kernels/elementwise-chain"
WAIT, FILL = "gradient/zeroing-wait", "gradient/zeroing-fill"


def analyzed(b: TraceBuilder, folder: Path, **options: object) -> Analysis:
    return advisor.analyze(advisor.read(str(b.write(folder / "t.json"))), **options)  # type: ignore[arg-type]


def finding(result: Analysis, rule: str) -> Finding:
    return next(one for one in result.findings if one.rule == rule)


def saving(result: Analysis, rule: str) -> Saving:
    found = finding(result, rule).saving
    assert found is not None
    return found


def chain() -> TraceBuilder:
    """Five steps of 40 pointwise kernels of 20 us, each of another operator than the last, that take the host 60 us each."""
    b = TraceBuilder(A100, host_us=0, latency_us=0, with_stack=False)
    for _ in range(5):
        with b.step():
            for at in range(40):
                name = ("add", "mul", "relu", "sigmoid")[at % 4]
                with b.op(f"aten::{name}"):
                    b.idle(us=60)
                    b.kernel(
                        f"void at::native::vectorized_elementwise_kernel<4, at::native::{name.title()}Functor<float>>",
                        us=20,
                    )
            b.sync()
    return b


def zeroing() -> TraceBuilder:
    """Five steps of 15 ms of products, and of 100 fills of 5 us that take the host 25 us each."""
    b = TraceBuilder(A100, host_us=0, latency_us=0, with_stack=False)
    for _ in range(5):
        with b.step():
            for _ in range(5):
                with b.op("aten::mm"):
                    b.kernel("ampere_sgemm_128x64_tn", us=3000)
            b.sync()
            with b.annotation("Optimizer.zero_grad#SGD.zero_grad"):
                for _ in range(100):
                    with b.op("aten::fill_"):
                        b.idle(us=25)
                        b.kernel("vectorized_elementwise_kernel_fill", us=5)
            b.sync()
    return b


def test_one_change_for_two_findings_is_one_step_with_both_prices(tmp_path: Path) -> None:
    """Idle are 40 gaps of 40 us, 1.6 ms, of which compilation returns 30 to 97 %; a chain of 40 shrinks by 37.5 to 83.75 %.

    Its kernels take 0.8 ms, and behind each of them lie 20 us of the next launch: 0.76 ms, which captured launches leave out.
    """
    result = analyzed(chain(), tmp_path)
    (step,) = result.plan
    assert step.rules == [LAUNCHES, CHAIN]
    both = saving(result, LAUNCHES)
    assert both.low_ms == pytest.approx(0.3 * 1.6 + 0.375 * (0.8 + 0.76), rel=0.01)
    assert both.high_ms == pytest.approx(0.97 * 1.6 + 0.8375 * 0.8, rel=0.01)
    assert both.basis.endswith("in it are 585 to 669 µs of kernels/elementwise-chain, whose fix is the same change")
    folded = finding(result, CHAIN)
    assert (folded.saving, folded.after, folded.done_by, folded.severity) == (None, [LAUNCHES], LAUNCHES, "note")
    assert folded.cost_ms == pytest.approx(0.8)
    assert folded.evidence.rows
    assert step.step_ms_after["low"] == pytest.approx(result.summary.whole_ms - both.high_ms, rel=1e-3)
    assert step.step_ms_after["high"] == pytest.approx(result.summary.whole_ms - both.low_ms)
    assert Analysis.from_json(result.to_json()) == result


@pytest.mark.real
def test_of_several_findings_of_one_change_each_counts_after_those_before_it() -> None:
    """Three findings that set_to_none mends as well: the first of them takes idle time of the last."""
    found = next(
        one for one in analysis("audited/v100_aot_allreduce_rank1of2").findings if one.rule == "gradient/adding-wait"
    )
    assert found.saving is not None
    listed = r"of gradient/added-to-zeros, \S+ to \S+ ms of gradient/zeroing-fill and \S+ to \S+ µs of gradient/zeroing-wait, "
    assert re.search(listed + "whose fix is the same change: each counts after those before it$", found.saving.basis)


def test_a_folded_finding_has_a_line_and_no_price(tmp_path: Path) -> None:
    result = analyzed(chain(), tmp_path)
    for form in ("text", "markdown", "html"):
        text = re.sub(r"<[^>]*>|\\s+", " ", render(form, result, Options(verbosity=1)).decode())
        assert "done by fix 1" in text, form
        assert "nothing left" not in text, form
    assert (
        "91.9 %), together with kernels/elementwise-chain\n"
        in render("text", result, Options(width=200, verbosity=1)).decode()
    )


def test_what_each_is_worth_alone_can_be_asked(tmp_path: Path) -> None:
    alone = analyzed(chain(), tmp_path, what_if=[CHAIN]).what_if
    assert alone is not None
    assert alone.rules == [CHAIN]


def test_without_a_replay_the_savings_add_up(tmp_path: Path) -> None:
    """Fills take 99 gaps of 20 us with no work beside them, 1.98 ms, and 99 of 5 us: 0.495. All of both may go."""
    result = analyzed(zeroing(), tmp_path)
    both = saving(result, WAIT)
    assert "not replayed" in both.basis
    assert both.low_ms == pytest.approx(0.8 * 1.98 + 0.9 * 0.495, rel=0.01)
    assert both.high_ms == pytest.approx(1.98 + 0.495, rel=0.01)
    assert (finding(result, FILL).saving, finding(result, FILL).done_by) == (None, WAIT)
    assert sum(one.saving.high_ms for one in result.findings if one.saving) <= result.summary.whole_ms


def test_the_first_leads_and_one_that_does_more_leads_all() -> None:
    acts = {rule: frozenset(keys.split()) for rule, keys in
            {"a": "x", "b": "", "c": "x y", "d": "x", "e": "y z", "f": ""}.items()}  # fmt: skip
    assert bundles("abcdef", acts) == [["c", "a", "d"], ["b"], ["e"], ["f"]]
    assert bundles("dab", acts) == [["d", "a"], ["b"]]
    assert bundles("fb", acts) == [["f"], ["b"]]


def place(op: str | None, line: int | None = None) -> Place:
    return Place(
        file=None if line is None else "train.py", line=line, function=None, library=None, module=None, op=op, share=1
    )


def test_a_local_act_is_the_same_at_the_same_place_only() -> None:
    fix = Fix(title="Make it there", acts=("create",), local=True)
    here = acts_of(fix, [place("aten::randn", 5), place("aten::zeros", 9)])
    assert len(here) == 1
    assert here == acts_of(fix, [place("aten::randn", 5)])
    assert here != acts_of(fix, [place("aten::zeros", 5)])
    assert here != acts_of(fix, [place("aten::randn", 9)])
    assert not acts_of(fix, [place(None, 5)])
    assert not acts_of(fix, [])
    assert acts_of(Fix(title="Compile", acts=("compile",)), []) == {"compile"}


def test_an_act_that_is_nearly_anothers_is_a_slip(tmp_path: Path) -> None:
    source = (builtin_rules_dir() / "kernels" / "elementwise-chain.toml").read_text(encoding="utf-8")
    mine = tmp_path / "team" / "chain.toml"
    mine.parent.mkdir()
    mine.write_text(
        source.replace('id         = "kernels/elementwise-chain"', 'id = "team/chain"').replace('"compile"', '"compil"')
    )
    with pytest.raises(RuleError, match=r"fix\.acts: no other rule has the act 'compil'; nearest: compile"):
        load([builtin_rules_dir(), tmp_path])
    mine.write_text(mine.read_text(encoding="utf-8").replace('"compil"', '"fold-constants"'), encoding="utf-8")
    assert any(rule.id == "team/chain" for rule in load([builtin_rules_dir(), tmp_path]).rules)


def lines(*shares: tuple[str, int, float]) -> list[Place]:
    nothing = {"function": None, "library": None, "module": None, "op": None}
    return [Place(file=file, line=line, share=share, **nothing) for file, line, share in shares]


def test_what_lies_at_the_lines_that_a_fix_rewrites_goes_with_it() -> None:
    where = {
        "a/compute": lines(("t.py", 74, 0.94), ("t.py", 75, 0.06)),
        "b/copy": lines(("t.py", 74, 1.0)),
        "c/launch": lines(("t.py", 74, 0.5), ("m.py", 9, 0.5)),
        "d/other": lines(("t.py", 75, 1.0)),
    }
    acts = {rule: frozenset({"own"} if rule == "d/other" else ()) for rule in where}
    found = with_lines(acts, {"a/compute": ["b/copy", "c/launch", "d/other"]}, where)
    assert found["b/copy"] == {"t.py:74"}
    assert found["a/compute"] == {"t.py:74", "t.py:75", "a/compute"}
    assert found["c/launch"] == frozenset()  # half of it lies elsewhere
    assert found["d/other"] == {"own"}  # its change is known, and another
    assert bundles(["b/copy", "a/compute", "c/launch"], found) == [["a/compute", "b/copy"], ["c/launch"]]


def test_what_rewrites_all_lines_of_another_leads_it_unless_the_other_does_the_same() -> None:
    where = {rule: lines(("t.py", 74, 1.0)) for rule in ("a/loop", "b/slices")}
    acts = dict.fromkeys(where, frozenset[str]())
    found = with_lines(acts, {"a/loop": ["b/slices"]}, where)
    assert bundles(["b/slices", "a/loop"], found) == [["a/loop", "b/slices"]]
    found = with_lines(acts, {"a/loop": ["b/slices"], "b/slices": ["a/loop"]}, where)
    assert bundles(["b/slices", "a/loop"], found) == [["b/slices", "a/loop"]]


def test_lines_that_a_fix_leaves_to_others_are_rewritten_as_well() -> None:
    where = {"a/loop": lines(("t.py", 75, 1.0)), "b/slices": lines(("t.py", 74, 1.0))}
    acts = dict.fromkeys(where, frozenset[str]())
    assert with_lines(acts, {"a/loop": ["b/slices"]}, where) == acts
    both = {"a/loop": lines(("t.py", 74, 0.5), ("t.py", 75, 0.5))}
    assert with_lines(acts, {"a/loop": ["b/slices"]}, where, both)["b/slices"] == {"t.py:74"}


def test_a_fix_whose_own_time_lies_elsewhere_takes_nothing_along() -> None:
    where = {"a/compute": lines(("t.py", 74, 0.6)), "b/copy": lines(("t.py", 74, 1.0))}
    acts = dict.fromkeys(where, frozenset[str]())
    assert with_lines(acts, {"a/compute": ["b/copy"]}, where) == acts


def test_classes_found_on_the_host_are_copied_by_the_same_line() -> None:
    """Recorded on an H100, then logits.argmax(1).cpu() in place of logits.cpu().argmax(1): 210.6 became 17.6 ms."""
    path = ROOT / "sample_traces/h100/programs/segmentation_eval.trace.json.gz"
    result = advisor.analyze(advisor.read(str(path)))
    copy = finding(result, "transfer/pageable-copy")
    assert copy.done_by == "cpu/work-off-the-gpu"
    assert saving(result, "cpu/work-off-the-gpu").low_ms < 193.0 < saving(result, "cpu/work-off-the-gpu").high_ms
