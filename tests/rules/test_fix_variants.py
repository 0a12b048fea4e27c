"""Fixes by the program that they are shown to: no training code for inference, its own optimizer, what its GPU can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from support.real import AUDITED, NAMES
from support.traces import analysis

from advisor import rulebook
from advisor.columns import Columns
from advisor.engine.evaluation import Evaluator, Question
from advisor.frames import SCHEMAS
from advisor.frames.values import typed
from advisor.pipeline import analyze
from advisor.rulebook import Rule
from advisor.rulebook.rule import Fix
from advisor.testing import TraceBuilder
from advisor.trace import read

BOOK = rulebook.load([ROOT / "rules"])

# Rows of `trace`: what is not said is unknown. Flags are false unless said, as the frame has them.
PLAIN = {"compiled_share": 0.0, "parallelism": "", "frameworks": "", "graph_launches": 0}
INFERENCE = PLAIN | {"kind": "inference", "training": False}
TRAINING = PLAIN | {"kind": "training", "training": True, "optimizer_form": "foreach"}
V100 = {"vendor": "nvidia", "capability": 7.0, "bf16_capable": False, "compile_possible": True}
A100 = {"vendor": "nvidia", "capability": 8.0, "bf16_capable": True, "compile_possible": True}
SGD = {"optimizers": "SGD", "fused_possible": True, "foreach_possible": True}
ADAMW = {"optimizers": "AdamW", "fused_possible": True, "foreach_possible": True}
DDP = {"ddp": True, "parallelism": "ddp", "distributed": True}
INDUCTOR = {"compiler": "inductor", "compiled_share": 0.9, "compiled": True}
VLLM = {"framework": "vllm", "frameworks": "vllm, transformers", "engine": True, "model": "language"}


class OneRow:
    """A trace that is one row of `trace`."""

    def __init__(self, facts: dict[str, Any]) -> None:
        row = {}
        for column in SCHEMAS["trace"].columns:
            unsaid = False if column.type == "BOOLEAN" and not column.name.endswith(("_possible", "_capable")) else None
            row[column.name] = typed([facts.get(column.name, unsaid)], column)
        self.table = Columns(row)

    def columns(self, name: str, columns: object = None, /) -> Columns:
        assert name == "trace"
        return self.table


def shown(facts: dict[str, Any]) -> Iterator[tuple[Rule, Fix]]:
    """The fix of every rule that speaks of such a program, with its names filled in."""
    with Evaluator(OneRow(facts), BOOK.schemas) as evaluator:
        questions = {
            (rule.id, place): Question(given.sql, given.columns)
            for rule in BOOK.rules
            for place, given in enumerate((rule.compiled.given, *rule.compiled.fixes))
            if given is not None
        }
        answers = evaluator.truths("trace", questions)
    assert not [answer for answer in answers.values() if isinstance(answer, Exception)]
    for rule in BOOK.rules:
        if not rule.is_profile and answers.get((rule.id, 0)) is not False:
            fits = (fix for place, fix in enumerate(rule.variants, 1) if answers.get((rule.id, place)) is True)
            yield rule, next(fits, rule.variants[-1]).filled(facts)


def holding(pattern: str, facts: dict[str, Any], *, after: bool = False) -> list[str]:
    """Ids of rules whose fix for such a program holds *pattern* in its code; *after* looks at the change alone."""
    return [
        rule.id
        for rule, fix in shown(facts)
        if re.search(pattern, fix.after if after else f"{fix.before}\n{fix.after}")
    ]


TRAINS = r"\.backward\(\)|GradScaler|optimizer\.step|train_step|zero_grad|torch\.optim"
# They ask about backward passes, optimizers or gradients that this trace does not show, and stay silent.
BY_ROWS = {
    "cpu/unfused-optimizer", "kernels/foreach-optimizer", "kernels/single-tensor-optimizer", "gradient/zeroing-fill",
    "gradient/zeroing-memset", "gradient/zeroing-wait", "gradient/added-to-zeros", "gradient/adding-wait",
    "sync/debug-api", "gpu-idle/foreach-grouping",
    "kernels/slow-optimizer", "gradient/dense-embedding", "cpu/micro-batch-copies", "cpu/micro-batch-reduction",
    "cpu/averaged-parameters",
    "gradient/repeated-backward", "gradient/l1-penalty", "gradient/l2-penalty", "gradient/proximal-penalty",
}  # fmt: skip


@pytest.mark.parametrize(
    "facts",
    [INFERENCE | V100, INFERENCE | A100, INFERENCE | A100 | INDUCTOR, INFERENCE | A100 | VLLM,
     INFERENCE | A100 | {"framework": "transformers", "slow_image_processor": True}, INFERENCE | {"cpu_only": True}],
    ids=["V100", "A100", "inductor", "vllm", "transformers", "cpu"],
)  # fmt: skip
def test_inference_is_shown_no_training(facts: dict[str, Any]) -> None:
    assert set(holding(TRAINS, facts)) <= BY_ROWS


@pytest.mark.parametrize("device", [V100, A100], ids=["V100", "A100"])
def test_training_code_fits_the_device(device: dict[str, Any]) -> None:
    facts = TRAINING | device | DDP | SGD | {"gradient_dtype": "fp32", "half_gemm_time_share": 0.9}
    bf16 = device is A100
    assert holding("bf16_compress_hook", facts) == (
        ["distributed/exposed-communication", "distributed/full-precision-gradients"] if bf16 else []
    )
    assert holding("fp16_compress_hook", facts) == (
        [] if bf16 else ["distributed/exposed-communication", "distributed/full-precision-gradients"]
    )
    scaled = [rule for rule in holding("GradScaler", facts, after=True) if rule != "precision/fp16-on-bf16-gpu"]
    assert scaled == ([] if bf16 else ["precision/no-tensor-cores"])


@pytest.mark.parametrize("dtype", ["bf16", "fp16", None])
def test_no_compression_of_messages_that_are_16_bits_or_unknown(dtype: str | None) -> None:
    fixes = {rule.id: fix for rule, fix in shown(TRAINING | A100 | DDP | {"gradient_dtype": dtype})}
    assert "compress_hook" not in fixes["distributed/exposed-communication"].after
    assert "bucket_cap_mb" in fixes["distributed/exposed-communication"].after


@pytest.mark.parametrize("way", ["collectives", "tensor", "embedding", "pipeline", ""])
def test_ddp_is_not_taken_for_granted(way: str) -> None:
    facts = (
        TRAINING
        | A100
        | {"distributed": True, "parallelism": way, "model": "recommender" if way == "embedding" else None}
        | {"exposed_kind": "all_to_all" if way == "embedding" else "all_reduce"}
    )
    fixes = {rule.id: fix for rule, fix in shown(facts)}
    exposed = fixes["distributed/exposed-communication"]
    assert "DistributedDataParallel" not in exposed.before
    assert ("DistributedDataParallel" in exposed.after) == (way == "collectives")  # there it is the fix


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "AdamW"])
def test_the_optimizer_stays_what_it_is(name: str) -> None:
    facts = TRAINING | A100 | {"optimizers": name, "fused_possible": True, "foreach_possible": True}
    fixes = {rule.id: fix for rule, fix in shown(facts)}
    for rule in (
        "cpu/unfused-optimizer",
        "kernels/foreach-optimizer",
        "kernels/single-tensor-optimizer",
        "gpu-idle/foreach-grouping",
    ):
        if rule in fixes:
            assert f"torch.optim.{name}(" in fixes[rule].after
            assert "fused=True" in fixes[rule].after
    # A change of its own, with findings of its own: to compile the model is another.
    assert "torch.optim" not in fixes["gpu-idle/launch-bound"].after
    others = {"SGD", "Adagrad", "AdamW", "Adam", "RMSprop"} - {name}
    # Sparse gradients have an optimizer of their own.
    assert set(holding(rf"torch\.optim\.({'|'.join(others)})\(", facts)) <= {
        "kernels/scatter-embedding-backward",
        "gradient/dense-embedding",
    }


def test_an_optimizer_without_a_fused_form_is_given_foreach() -> None:
    facts = TRAINING | A100 | {"optimizers": "RMSprop", "fused_possible": False, "foreach_possible": True}
    fixes = {rule.id: fix for rule, fix in shown(facts)}
    after = fixes["kernels/single-tensor-optimizer"].after
    assert after == "optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, foreach=True)"
    assert "fused=True" not in fixes["gpu-idle/launch-bound"].after


@pytest.mark.parametrize("name", ["Adam'; import os #", "x y", "", "9Adam", "A" * 65, "Adam(…)", None])
def test_a_name_that_is_no_class_gives_way_to_a_usual_one(name: str | None) -> None:
    fix = Fix(title="Fuse {optimizers}", after="torch.optim.{optimizers}(p, betas={0: 1})")
    filled = fix.filled({"optimizers": name})
    assert (filled.title, filled.after) == ("Fuse AdamW", "torch.optim.AdamW(p, betas={0: 1})")


def test_the_first_of_several_names_is_taken() -> None:
    assert Fix(title="{optimizers} of {step}").filled({"optimizers": "SGD, Shampoo"}).title == "SGD of {step}"


@pytest.mark.parametrize("rule", ["gpu-idle/launch-bound", "kernels/elementwise-chain"])
@pytest.mark.parametrize("kind", [INFERENCE, TRAINING], ids=["inference", "training"])
def test_what_inductor_compiled_is_not_to_be_compiled(rule: str, kind: dict[str, Any]) -> None:
    fixes = {r.id: fix for r, fix in shown(kind | A100 | INDUCTOR)}
    assert not fixes[rule].title.startswith(("Compile", "Launch less: compile the model"))
    other = {r.id: fix for r, fix in shown(kind | A100 | {"compiler": "aot", "compiled_share": 0.9})}
    assert other[rule].title.startswith("Compile with inductor")
    eager = {r.id: fix for r, fix in shown(kind | A100)}
    assert "ompile the model" in eager[rule].title


@pytest.mark.parametrize("framework", [None, "vllm", "sglang"])
def test_a_group_inside_one_machine_is_not_told_to_leave_others(framework: str | None) -> None:
    """Eight ranks are one machine's; only larger groups are told to stay inside one."""
    rule = "distributed/exposed-forward-communication"
    facts = INFERENCE | A100 | {"framework": framework, "distributed": True, "world_size": 64}
    small, large = ({r.id: fix for r, fix in shown(facts | {"largest_group": size})}[rule] for size in (8, 16))
    for code in (small.before, small.after, small.title):
        assert not re.search(r"16|machine|pipeline_parallel|pp_size", code)
    assert re.search(r"machine|pp_size=2", large.after)


@pytest.mark.parametrize(
    ("framework", "option"),
    [("vllm", "enforce_eager=False"), ("sglang", "cuda_graph_max_bs=160"), ("tensorrt-llm", "cuda_graph_config"),
     ("diffusers", 'pipe.transformer.compile(mode="reduce-overhead", fullgraph=True)')],
)  # fmt: skip
def test_launch_bound_engines_are_told_their_own_options(framework: str, option: str) -> None:
    facts = INFERENCE | A100 | {"framework": framework, "engine": framework != "diffusers"}
    fixes = {rule.id: fix for rule, fix in shown(facts)}
    assert option in fixes["gpu-idle/launch-bound"].after


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (INFERENCE | {"framework": "transformers"}, 'attn_implementation="sdpa"'),
        (INFERENCE | {"model": "recommender"}, "F.scaled_dot_product_attention(q, k, v, attn_mask=mask.bool())"),
        (TRAINING, "dropout_p=p if training else 0.0"),
    ],
)
def test_attention_code_fits_the_program(facts: dict[str, Any], code: str) -> None:
    fixes = {rule.id: fix for rule, fix in shown(facts)}
    assert code in fixes["kernels/unfused-attention"].after
    if facts.get("model") == "recommender":
        assert "Embedding(50257" not in fixes["precision/misaligned-matmul"].before
        assert "dense features" in fixes["precision/misaligned-matmul"].before


def test_hugging_face_processors_are_made_fast() -> None:
    facts = INFERENCE | {"framework": "transformers", "slow_image_processor": True, "cpu_only": True}
    asked = set(holding("use_fast=True", facts, after=True))
    assert asked >= {
        "cpu/python-overhead",
        "cpu/python-time",
        "data-loading/slow-collate-or-transform",
        "transfer/large-copy",
    }


def test_what_a_fast_processor_changes_is_said_wherever_one_is_proposed() -> None:
    fixes = [(rule.id, fix) for rule in BOOK.rules for fix in rule.variants if "use_fast=True" in fix.after]
    assert len(fixes) >= 6
    assert [rule for rule, fix in fixes if "compare some outputs" not in fix.caveat] == []


# ---- on traces


def launch_bound(*, trains: bool, dialect: str) -> TraceBuilder:
    """Small products on an A100, each long before the next; a backward pass and a step of SGD where it *trains*."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", dialect=dialect)
    for _ in range(4):
        with b.step():
            for seq in range(200):
                with b.op("aten::linear", seq=seq), b.op("aten::addmm", us=60):
                    b.kernel("ampere_sgemm_32x32_sliced1x4_tn", us=4)
                if trains:
                    with b.backward("AddmmBackward0", seq=seq), b.op("aten::mm", us=60):
                        b.kernel("ampere_sgemm_32x32_sliced1x4_nt", us=4)
            if trains:
                with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_", us=60):
                    b.kernel("vectorized_elementwise_kernel<4, float>", us=4)
    return b


@pytest.mark.parametrize("dialect", ["kineto", "2021"])
@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_a_finding_holds_the_fix_for_its_program(trains: bool, dialect: str, tmp_path: Path) -> None:
    result = analyze(read(str(launch_bound(trains=trains, dialect=dialect).write(tmp_path / "trace.json"))))
    findings = {finding.rule: finding.fix for finding in result.findings}
    assert result.program is not None
    assert result.program.kind == ("training" if trains else "inference")
    code = findings["gpu-idle/launch-bound"].after
    # The optimizer's own form is a change of its own, and has a finding of its own where it matters.
    assert (".backward()" in code, "torch.optim" in code) == (trains, False)
    assert ("inference_mode" in code) == (not trains)


@pytest.mark.real
@pytest.mark.parametrize("name", [*NAMES, *AUDITED])
def test_no_real_trace_is_shown_a_fix_for_another_kind_of_program(name: str) -> None:
    result = analysis(name)
    program = result.program
    assert program is not None
    for finding in result.findings:
        code = f"{finding.fix.before}\n{finding.fix.after}"
        if program.kind == "inference":
            assert not re.search(TRAINS, code), finding.rule
        if program.bf16:
            assert "GradScaler" not in finding.fix.after, finding.rule
        if program.bf16 is False:
            assert "bf16_compress_hook" not in finding.fix.after, finding.rule
        if program.compiler == "inductor" and (program.compiled_share or 0) >= 0.5:
            assert not finding.fix.title.startswith("Compile the model"), finding.rule
        if program.framework == "vllm":
            assert "loader" not in code, finding.rule


def test_gradients_in_one_message_are_told_smaller_buckets() -> None:
    facts = TRAINING | A100 | DDP | {"gradient_dtype": "fp32", "exposed_kind": "all_reduce"}
    titles = {
        size: next(
            fix
            for rule, fix in shown(facts | {"exposed_bytes": size})
            if rule.id == "distributed/exposed-communication"
        ).title
        for size in (25_000_000, 1_300_000_000)
    }
    assert "larger buckets" in titles[25_000_000]
    assert "in buckets during backward" in titles[1_300_000_000]


def test_a_step_that_factorizes_nothing_is_not_told_to_do_so_less_often() -> None:
    facts = TRAINING | A100 | {"optimizers": "Shampoo", "optimizer_form": "foreach"}
    for factorizes in (True, False):
        shown_fixes = {rule.id: fix for rule, fix in shown(facts | {"optimizer_factorizes": factorizes})}
        assert ("precondition_frequency" in shown_fixes["kernels/slow-optimizer"].after) == factorizes


@pytest.mark.parametrize(("optimizer", "returns"), [("Adam", (0.6, 0.85)), ("Shampoo", (0.2, 0.8))])
def test_a_variant_has_a_price_of_its_own(optimizer: str, returns: tuple[float, float], tmp_path: Path) -> None:
    """Of 10 ms in a step of single tensors; a preconditioner's step returns what [replay] says."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", us=1):
                b.kernel("volta_sgemm_128x64_nn", us=10_000)
            b.sync(us=0)
            with b.annotation(f"Optimizer.step#{optimizer}.step"):
                with b.op("aten::addcmul_"):
                    b.kernel("update_kernel", us=10_000)
                b.sync(us=0)
    found = {finding.rule: finding for finding in analyze(read(str(b.write(tmp_path / "t.json")))).findings}
    saving = found["kernels/slow-optimizer"].saving
    assert saving is not None
    assert (saving.low_ms, saving.high_ms) == pytest.approx([10 * part for part in returns], rel=0.01)
