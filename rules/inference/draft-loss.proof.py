"""Proof of inference/draft-loss: engines whose drafts do not pay, and such whose drafts do."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import layers

H100, MI300 = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"
SEQUENCES, DRAFTS = 10, 4


def vllm(
    kept: float | None,
    draft_us: int = 400,
    *,
    device: str = MI300,
    ranges: bool = True,
    replaced: bool = False,
) -> TraceBuilder:
    """Batches of vLLM: a graph of 800 us that verifies five tokens of each of ten sequences, and one that drafts four.

    *kept* tokens a sequence of each batch, by the length of the sequences; None: that is not annotated. *replaced*: from the
    fourth batch on a longer sequence has taken the place of one that ended.
    """
    b = TraceBuilder(device, host_us=1, latency_us=0)
    length = 20_000
    for number in range(8):
        tokens = SEQUENCES * (1 + DRAFTS)
        name = f"execute_context_0(0)_generation_{SEQUENCES}({tokens})"
        if kept is not None:
            name = f"execute_{SEQUENCES}_context_0(sq0sk0sqsq0sqsk0)_generation_{SEQUENCES}(sq{tokens}sk{length}sqsq9sqsk9)"
            length += round(kept * SEQUENCES) + (7000 if replaced and number == 3 else 0)
        with b.annotation(name):
            b.graph(layers(10, 20))
        inside = "gpu_model_runner: draft" if ranges else "bookkeeping"
        with b.annotation(inside):
            b.graph(layers(10, draft_us / 40))
    b.sync()
    return b


# Beside drafting a batch takes 800 us: with 1.2 tokens kept, 160 of 400 us return. The window ends with the last model: seven
# drafts in 8 * 0.8 + 7 * 0.4 ms, of which a step has 1.2.
COST_MS = 7 * 0.4 / 9.2 * 1.2


@fires(cost_ms=COST_MS, severity="high", fix="Draft fewer tokens, or decode without speculation")
def few_drafts_are_kept() -> TraceBuilder:
    return vllm(1.2)


@fires(cost_ms=COST_MS)
def a_sequence_ends_and_another_takes_its_place() -> TraceBuilder:
    return vllm(1.2, replaced=True)


# 3.5 ms a batch to draft four tokens that return 3.2 at most.
@fires(cost_ms=7 * 3.5 / (8 * 0.8 + 7 * 3.5) * 4.3)
def drafting_takes_longer_than_all_that_it_can_return() -> TraceBuilder:
    return vllm(None, 3500, device=H100)


@quiet
def most_drafts_are_kept() -> TraceBuilder:
    return vllm(3.1)


@quiet
def how_many_are_kept_is_not_told_and_all_would_pay() -> TraceBuilder:
    return vllm(None)


@quiet
def nothing_names_what_drafts() -> TraceBuilder:
    return vllm(1.2, ranges=False)


@quiet
def an_engine_that_says_neither_tokens_nor_lengths() -> TraceBuilder:
    """SGLang: draft, verify, extend the draft's cache."""
    b = TraceBuilder(H100, host_us=1, latency_us=0)
    for _ in range(6):
        for name, us in (("draft", 10), ("step[TARGET_VERIFY bs=8]", 20), ("draft_extend", 5)):
            with b.annotation(name):
                b.graph(layers(10, us))
    b.sync()
    return b


@edge
def as_many_as_drafting_takes(over: bool) -> TraceBuilder:
    # A batch is 1.5 times as long for drafting: from 1.5 tokens on it is worth it. 85 % of the part of a third that is lost
    # returns 2 % of the step from a loss of 7.1 % on: 1.46 tokens.
    return vllm(1.4 if over else 1.5)


@lacks("gpu", verdict="not_applicable")
def no_gpu_recorded() -> TraceBuilder:
    return host_alone("execute_context_0(0)_generation_4(12)")


@lacks("host", verdict="not_applicable")
def no_host_recorded() -> TraceBuilder:
    b = TraceBuilder()
    b.kernel("flash_fwd_kernel", us=50, launched=False)
    return b
