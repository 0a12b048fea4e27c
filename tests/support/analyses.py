"""Analyses made by hand: a usual one, and one whose every text is an attack."""

from __future__ import annotations

import msgspec

from advisor.results.analysis import (
    Advisor,
    Analysis,
    DeviceInfo,
    Evidence,
    Features,
    Finding,
    Fix,
    NotApplicable,
    NotRun,
    Place,
    PlanStep,
    QualityNote,
    Reference,
    RuleFailure,
    Saving,
    StartupPart,
    StepTimes,
    Summary,
    TraceInfo,
    Verdicts,
)
from advisor.results.headline import Headline
from advisor.results.ranks import Across, Clocks, RankRow

REPLACE = msgspec.structs.replace
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::" + "CUDAFunctor_add<float>, " * 6 + "tail>"
HOSTILE = "evil\x1b[2J\x1b]0;owned\x07\u202egnp.exe\nforged line\r\x00\x9b31m[bold]markup[/bold]"


def finding(rule: str = "data-loading/single-process-loader", **change: object) -> Finding:
    result = Finding(
        rule=rule,
        title="Batches are loaded in the training process",
        category="data-loading",
        severity="high",
        confidence="certain",
        cost_ms=28.1,
        cost_share=0.2323,
        occurrences=5,
        saving=Saving(low_ms=21.0, high_ms=28.1, low_share=0.1736, high_share=0.2323, basis="bound: the idle it owns"),
        where=[
            Place(
                file="train.py",
                line=54,
                function="train",
                library="torch/utils/data/dataloader.py:521 __next__",
                module="ResNet_0/Conv2d_3",
                op="enumerate(DataLoader)",
                share=0.84,
            )
        ],
        evidence=Evidence(
            columns=["name", "n", "dur_ns", "moved_bytes", "gpu_share", "pinned", "line"],
            rows=[[KERNEL, 1200, 1_234_567, 65536, 0.5, True, 54], [None, 3, 20_000, None, 0.0, False, -1]],
        ),
        why="The GPU waits.",
        more="Measured on one GPU.\n\nHarmless where the batch is ready before the step ends.",
        fix=Fix(
            title="Load in workers",
            effort="one line",
            before="loader = DataLoader(data)",
            after="loader = DataLoader(\n    data,\n\tnum_workers=8)",
            caveat="Workers take memory.",
            verify="the loader owns under 1 % of the step",
        ),
        references=[Reference(title="Tuning guide", url="https://pytorch.org/tutorials/recipes/tuning.html")],
    )
    return REPLACE(result, **change)


def analysis(*findings: Finding, **change: object) -> Analysis:
    result = Analysis(
        schema_version=1,
        advisor=Advisor(version="0.1.0", rules=20),
        trace=TraceInfo(
            path="/home/someone/runs/trace.json.gz",
            events=1000,
            span_ms=700.0,
            devices=[DeviceInfo(id=0, name="Tesla V100", vendor="nvidia", capability="7.0", memory_bytes=32 << 30)],
            features=Features(
                steps=True, gpu=True, host=True, shapes=False, stacks=False, memory=True, distributed=False
            ),
            rank=None,
            world_size=None,
            torch="2.1.0",
        ),
        quality=[QualityNote(code="no-warmup", message="The first step is warm-up.", advice="Use schedule(warmup=3).")],
        summary=Summary(
            steps=5,
            window_ms=605.0,
            step_ms=StepTimes(median=121.0, p10=118.0, p90=130.0, samples=[118.0, 120.0, 121.0, 124.0, 130.0]),
            device=0,
            gpu_busy_share=0.691,
            gpu_utilization={"0": 0.612},
            sm_efficiency=0.55,
            achieved_occupancy=0.512,
            tensor_core_share=0.0,
            peak_memory_bytes=3 << 30,
            memory_bytes=32 << 30,
            causes={"compute": 1 / 3, "loader": 1 / 3, "host": 1 / 3, "gc": 0.0},
        ),
        findings=list(findings),
        plan=[],
        verdicts=Verdicts(
            passes=["kernels/small-grid"],
            not_applicable=[NotApplicable(rule="distributed/x", because="one process")],
            not_run=[
                NotRun(rule="precision/a", needs=["shapes"], how="profile(record_shapes=True)"),
                NotRun(rule="precision/b", needs=["shapes"], how="profile(record_shapes=True)"),
            ],
            error=[],
            noted=["profile/no-warmup"],
        ),
    )
    return REPLACE(result, **change)


def together(base: Analysis, path: str = "rank0.json") -> Across:
    """Two ranks, the first with nothing known, and what *base* says as if it were found across them."""
    row = RankRow(
        rank=1,
        path=path,
        steps=5,
        step_ms=121.0,
        gpu_busy_share=0.691,
        compute_share=0.6,
        communication_share=0.09,
        wait_ms=8.5,
        wait_share=0.07,
        late_share=0.25,
        caused_ms=2.5,
        clock_offset_ms=0.004,
        clock_residual_ms=0.012,
    )
    blank = {name: None for name in RankRow.__struct_fields__ if name not in ("rank", "path", "steps")}
    return Across(
        ranks=[RankRow(rank=0, path=path, steps=0, **blank), row],
        world_size=8,
        step_ms=121.0,
        clocks=Clocks(collectives=84, residual_ms=0.012, comparable=True, because=None),
        quality=base.quality,
        findings=base.findings,
        verdicts=base.verdicts,
    )


def hostile_analysis() -> Analysis:
    place = Place(file=HOSTILE, line=1, function=HOSTILE, library=HOSTILE, module=HOSTILE, op=HOSTILE, share=1.0)
    fix = Fix(title=HOSTILE, effort=HOSTILE, before=HOSTILE, after=HOSTILE, caveat=HOSTILE, verify=HOSTILE)
    bad = finding(
        HOSTILE,
        title=HOSTILE,
        where=[place],
        evidence=Evidence(columns=[HOSTILE], rows=[[HOSTILE]]),
        why=HOSTILE,
        more=HOSTILE,
        fix=fix,
        references=[Reference(title=HOSTILE, url=HOSTILE)],
        saving=Saving(low_ms=0.0, high_ms=1.0, low_share=0.0, high_share=0.01, basis=HOSTILE),
    )
    base = analysis(bad, REPLACE(bad, severity="note"))
    return REPLACE(
        base,
        trace=REPLACE(base.trace, path=HOSTILE, torch=HOSTILE, devices=[REPLACE(base.trace.devices[0], name=HOSTILE)]),
        quality=[QualityNote(code=HOSTILE, message=HOSTILE, advice=HOSTILE)],
        plan=[
            PlanStep(
                rules=[HOSTILE],
                title=HOSTILE,
                step_ms_before=121.0,
                step_ms_after={"low": 93.0, "high": 100.0},
                speedup=1.2,
            )
        ],
        headline=Headline(text=HOSTILE, kind="training", bound=HOSTILE, first=HOSTILE),
        summary=REPLACE(
            base.summary,
            causes={HOSTILE: 0.4, "startup": 0.1, "compute": 0.5},
            gpu_utilization={HOSTILE: 0.1, "0": 0.2},
            startup=[StartupPart(kind=HOSTILE, ms=60.5, where=HOSTILE)],
            steps_by=HOSTILE,
        ),
        verdicts=Verdicts(
            passes=[HOSTILE],
            not_applicable=[NotApplicable(rule=HOSTILE, because=HOSTILE)],
            not_run=[NotRun(rule=HOSTILE, needs=[HOSTILE], how=HOSTILE)],
            error=[RuleFailure(rule=HOSTILE, message=HOSTILE)],
        ),
    )
