"""Claims of fixes: whether the second recording shows that the fix of a finding was applied, and that it holds.

Only settings and what ran tell that a fix was applied. That a rule fell under its level, or speaks of other programs, does not:
then nothing is said for or against the fix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from advisor.counting import change
from advisor.gating import baseline as baselines
from advisor.gating.alike import batches
from advisor.results.analysis import Analysis, Finding
from advisor.results.comparison import Answer, Claim
from advisor.results.judgement import Check
from advisor.views.metrics import STEP

Facts = Mapping[str, bool | int | float | str | None]
Evidence = Callable[[Facts, Facts], str | None]
"""Sign that a fix was applied, in words; empty where it was not, None where nothing tells."""
_GONE = 0.1
"""Part of what there was that may be left of what a fix does away with."""
_HALF = 0.5
_SMALL = 0.01
"""Part of what there was that is not worth a word."""
_PER = {"step": "a step", "sample": "a sample", "window": "in the window"}
_BY_BATCH = "memory/low-peak"
"""The rule whose fix is a larger batch."""
_ABOUT: Mapping[str, tuple[tuple[str, ...], str]] = {
    "transfer": (("copy", "blocking_copy"), "copies in all, and the waits for them, take"),
    "data-loading": (("loader",), "waits for batches take in all"),
    "sync": (("sync", "blocking_copy"), "waits for the device take in all"),
}
"""By category: the causes that its rules are about, and how their sum is called."""
_OTHERWISE = "no mark of its fix is recorded: a part of it, or other work, did that"
_UNTOLD = ("not_run", "error", "unknown")
_ORDER: tuple[Answer, ...] = (
    "applied and holds",
    "applied, does not hold",
    "cost fell",
    "cannot be told",
    "not applied",
)


def claims(before: Analysis, after: Analysis, checks: Mapping[str, Check], per: str = "step") -> list[Claim]:
    """Hold the fix of each finding of *before* against *after*; all figures are those of a step, or of what else *per* says."""
    left = {finding.rule: finding for finding in after.findings}
    verdicts = baselines.verdicts(after)
    found = []
    for finding in before.findings:
        now, check = left.get(finding.rule), checks.get(finding.rule)
        verdict = verdicts.get(finding.rule, "unknown")
        answer, because = _answer(finding, now, check, verdict, before, after, per)
        found.append(
            Claim(rule=finding.rule, fix=finding.fix.title, verify=finding.fix.verify, answer=answer, because=because)
        )
    return sorted(found, key=lambda claim: _ORDER.index(claim.answer))


def _answer(
    finding: Finding,
    now: Finding | None,
    check: Check | None,
    verdict: str,
    before: Analysis,
    after: Analysis,
    per: str,
) -> tuple[Answer, str]:
    shown = _shown(finding.rule, before, after, per)
    fires = now is not None
    cost = check.base if check and check.base is not None else finding.cost_ms
    costs = check.now if check and check.now is not None else (now.cost_ms if now else 0.0)
    figures = f"{change(cost, costs, 3)} {_PER[per]}" if cost else ""
    if figures and shown:
        figures = f"what the rule speaks of costs {figures}{_in_all(finding.category, before, after)}"
    if shown:
        return _applied(shown, fires, verdict, check, figures)
    if fires and check is not None and check.outcome == "improvement":
        return "cost fell", _with(figures, f"the rule still fires; {_OTHERWISE}")
    if fires:
        return "not applied", "the rule still fires"
    if shown == "" and finding.rule == _BY_BATCH:
        return "not applied", "the batch did not grow"
    if shown == "":
        return _unseen(verdict)
    if verdict in _UNTOLD:
        return "cannot be told", "the rule could not run on the second recording"
    return "cannot be told", "the rule fires no more; nothing recorded shows whether its fix was applied"


def _applied(shown: str, fires: bool, verdict: str, check: Check | None, figures: str) -> tuple[Answer, str]:
    """Answer for a fix that the second recording shows."""
    if not fires and verdict in ("passes", "not_applicable"):
        return "applied and holds", _with(shown, figures if verdict == "passes" else "")
    if not fires:
        return "cannot be told", _with(shown, "the rule could not run on the second recording")
    if check is not None and check.outcome == "improvement":
        return "applied and holds", _with(shown, f"{figures}, which is still of note")
    return "applied, does not hold", _with(
        shown, f"the rule still fires: {figures}" if figures else "the rule still fires"
    )


def _unseen(verdict: str) -> tuple[Answer, str]:
    """Answer for a fix that the second recording shows is not there, where its rule fires no more."""
    if verdict == "passes":
        return "cost fell", f"the rule fires no more; {_OTHERWISE}"
    if verdict == "not_applicable":
        return "cannot be told", "the rule does not apply to the second recording"
    return "not applied", "the recording shows it as it was"


def _with(shown: str, more: str) -> str:
    return f"{shown}; {more}" if more else shown


def _in_all(category: str, before: Analysis, after: Analysis) -> str:
    """Return what the causes that a category is about come to, on either side, where any of it is left.

    A fix that does the same in a better way leaves nothing of what its rule looks for, and that is not all that there was.
    """
    causes, words = _ABOUT.get(category, ((), ""))
    sums = [
        sum(side.samples.parts.get(STEP.name, {}).get(cause, 0.0) for cause in causes) if side.samples else 0.0
        for side in (before, after)
    ]
    return f"; {words} {change(sums[0], sums[1], 3)}" if sums[1] > _SMALL * sums[0] else ""


def _shown(rule: str, before: Analysis, after: Analysis, per: str) -> str | None:
    """Return what shows that the rule's fix was applied; empty where it was not, None where nothing tells."""
    sides = (before.samples, after.samples)
    if sides[0] is None or sides[1] is None or not (sides[0].facts and sides[1].facts):
        return None
    if rule == _BY_BATCH:
        batch = batches(sides[0].work, sides[1].work)
        return f"the batch grew {batch[0]:g} → {batch[1]:g}" if batch and batch[1] > batch[0] else ""
    if (evidence := _EVIDENCE.get(rule)) is not None:
        return evidence(sides[0].facts, sides[1].facts)
    if rule in _BY_ROWS and _same_device(before, after):
        rows = [side.rows.get(rule, 0.0) for side in sides if side is not None]
        if rows[0] and after.verdicts and rule in (*after.verdicts.passes, *(f.rule for f in after.findings)):
            return f"{rows[0]:.4g} → {rows[1]:.4g} {_PER[per]}" if rows[1] <= _GONE * rows[0] else ""
    return None


def _same_device(before: Analysis, after: Analysis) -> bool:
    names = [[device.name for device in side.trace.devices] for side in (before, after)]
    return names[0] == names[1]


# ---- evidence


def _turned(name: str, *wanted: object, words: str = "") -> Evidence:
    """Return the evidence of a fact that became one of *wanted*."""

    def evidence(was: Facts, now: Facts) -> str | None:
        first, second = was.get(name), now.get(name)
        if second is None and None not in wanted:
            return None if first is None else ""
        if second in wanted and first not in wanted:
            return f"{words or name}: {first} → {second}"
        return ""

    return evidence


def _changed(name: str) -> Evidence:
    def evidence(was: Facts, now: Facts) -> str | None:
        first, second = was.get(name), now.get(name)
        if first is None or second is None:
            return None
        return f"{name}: {first} → {second}" if first != second else ""

    return evidence


def _grew(name: str, least: float, words: str) -> Evidence:
    """Return the evidence of a share or count that reached *least* from under it."""

    def evidence(was: Facts, now: Facts) -> str | None:
        first, second = was.get(name), now.get(name)
        if not isinstance(first, int | float) or not isinstance(second, int | float):
            return None
        return words if first < least <= second else ""

    return evidence


def _fell(name: str, words: str, left: float = _GONE) -> Evidence:
    """Return the evidence of a share or count of which no more than a part is *left*: next to none."""

    def evidence(was: Facts, now: Facts) -> str | None:
        first, second = was.get(name), now.get(name)
        if not isinstance(first, int | float) or not isinstance(second, int | float) or not first:
            return None
        return words if second <= left * first else ""

    return evidence


def _any(*several: Evidence) -> Evidence:
    """Return the first evidence of several that shows the fix; not applied where one says so and none shows it."""

    def evidence(was: Facts, now: Facts) -> str | None:
        answers = [one(was, now) for one in several]
        return next((answer for answer in answers if answer), "" if "" in answers else None)

    return evidence


def _workers(was: Facts, now: Facts) -> str | None:
    first, second = str(was.get("iterators") or ""), str(now.get("iterators") or "")
    if not second:
        return None
    return "the batches come from worker processes" if "single" in first and "single" not in second else ""


def _compiled(was: Facts, now: Facts) -> str | None:
    if was.get("compiler") is None and now.get("compiler") is not None:
        return f"compiled code runs ({now['compiler']})"
    return ""


_GRAPHS = _grew("graph_launches", 1, "graphs are replayed")
_HALF_PRECISION = _any(
    _grew("half_gemm_time_share", _HALF, "products run in 16 bits"), _turned("precision", "bf16", "fp16")
)
_TF32 = _any(_grew("tf32_gemm_time_share", _HALF, "products run in TF32"), _HALF_PRECISION)
_OPTIMIZER = _turned("optimizer_form", "fused", words="optimizer")
_BATCHED_OPTIMIZER = _any(
    _OPTIMIZER,
    lambda was, now: (
        "optimizer: single → foreach"
        if (was.get("optimizer_form"), now.get("optimizer_form")) == ("single", "foreach")
        else ""
    ),
)
_CAPTURED = _any(_GRAPHS, _compiled)
_LOADER = _any(_workers, _changed("loader_workers"))
_ATTENTION = _grew("fused_attention", 0.001, "a fused kernel of attention runs")
_LAYOUT = _fell("layout_kernels", "no tensor is turned into another layout any more")
_EVIDENCE: Mapping[str, Evidence] = {
    "data-loading/single-process-loader": _workers,
    "data-loading/loader-stall": _changed("loader_workers"),
    "data-loading/worker-restart": _turned("loader_persistent", True),
    "data-loading/unpickling": _turned("loader_pin_memory", True),
    "cpu/loader-wait": _LOADER,
    "cpu/worker-restart": _turned("loader_persistent", True),
    "cpu/slow-workers": _changed("loader_workers"),
    "cpu/thread-oversubscription": _changed("threads"),
    "cpu/unfused-optimizer": _OPTIMIZER,
    "cpu/float64": _fell("float64", "next to nothing is computed in float64"),
    "transfer/pageable-copy": _fell("pageable_copies", "copies to the device read pinned memory"),
    "transfer/large-copy": _fell("copied_mb", "a step copies fewer bytes", _HALF),
    "precision/no-tensor-cores": _any(_HALF_PRECISION, _TF32),
    "precision/fp32-matrix-cores": _HALF_PRECISION,
    "precision/fp32-with-tf32": _HALF_PRECISION,
    "precision/tf32-disabled": _TF32,
    "precision/float64": _fell("float64", "next to nothing is computed in float64"),
    "precision/fp16-on-bf16-gpu": _turned("precision", "bf16"),
    "precision/cast-churn": _compiled,
    "kernels/elementwise-chain": _compiled,
    "kernels/normalization-chain": _compiled,
    "kernels/narrow-normalization": _compiled,
    "kernels/vocabulary-loss": _compiled,
    "kernels/single-tensor-optimizer": _BATCHED_OPTIMIZER,
    "kernels/foreach-optimizer": _OPTIMIZER,
    "gpu-idle/foreach-grouping": _OPTIMIZER,
    "gpu-idle/launch-bound": _CAPTURED,
    "gpu-idle/between-kernels": _CAPTURED,
    "kernels/unfused-attention": _ATTENTION,
    "kernels/sdpa-math-fallback": _ATTENTION,
    "kernels/layout-transpose": _LAYOUT,
    "kernels/batch-norm-layout": _LAYOUT,
    "kernels/depthwise-layout": _LAYOUT,
    "kernels/cudnn-autotune-off": _turned("cudnn_benchmark", True),
    "inference/grad-enabled": _turned("grad_enabled", False),
    "inference/train-mode": _turned("train_mode", False),
    "sync/debug-api": _turned("anomaly_mode", False),
}
_BY_ROWS = frozenset(
    {
        "gradient/zeroing-fill", "gradient/added-to-zeros", "gradient/zeroing-memset", "sync/scalar-readback",
        "sync/explicit-synchronize", "memory/empty-cache-call", "kernels/conv-bias-before-bn", "transfer/device-pingpong",
        "transfer/cpu-created-tensor", "distributed/unbucketed-gradients",
    }
)  # fmt: skip
"""Rules whose rows are what the fix takes away, however long they last."""
