"""Proof of inference/uncached-prefix: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.reading.program_settings import Prompts
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

V100 = "Tesla V100-SXM2-16GB"
ROWS, WIDTH, WORDS, HIDDEN, HEADS = 16, 100, 1000, 64, 4
PREFIX = 80


class Program(TraceBuilder):
    """A program on the CPU, or on a GPU."""

    def __init__(self, device: str | None, **options: Any) -> None:
        super().__init__(device, **({"host_us": 1, "latency_us": 0} if device else {"host_us": 0}), **options)
        self.gpu = device is not None

    def run(self, name: str, us: float, shapes: list[Any], values: list[str] | None = None) -> None:
        """Add an operator of so many us: on a GPU they are its kernel's."""
        with self.op(name, shapes=shapes, values=values, us=0 if self.gpu else us):
            if self.gpu:
                self.kernel("volta_sgemm_128x64_nn", us=us)

    def attend(self, us: float, queries: int, keys: int, *, causal: bool, mask: bool = False) -> None:
        """Attention of so many queries to so many keys."""
        looked_at = [ROWS, HEADS, keys, HIDDEN // HEADS]
        shapes = [
            [ROWS, HEADS, queries, HIDDEN // HEADS],
            looked_at,
            looked_at,
            [queries, keys] if mask else [],
            [],
            [],
        ]
        self.run("aten::scaled_dot_product_attention", us, shapes, ["", "", "", "", "0.", str(causal)])


def answering(
    device: str | None = None,
    *,
    prefix: int = PREFIX,
    us: float = 7990,
    attention_us: float = 1000,
    rest_us: float = 1000,
    causal: bool = True,
    mask: bool = False,
    kept: bool = False,
    decodes: bool = True,
    crosses: int = 0,
    image: bool = False,
    training: bool = False,
    shapes: bool = True,
    told: bool = True,
) -> TraceBuilder:
    """Steps of a call with 16 prompts of 100 tokens, then one of a token each, which takes 1 ms.

    Of the first, a lookup takes 10 us, products 7.99 ms and attention 1 ms.
    """
    b = Program(device, record_shapes=shapes)
    if told:
        b.ran_with(prompts=Prompts(entries=WORDS, tokens=prefix, rows=ROWS))
    for number in range(3):
        with b.step():
            b.run("aten::embedding", 10, [[WORDS, HIDDEN], [ROWS, WIDTH]])
            if image:
                b.run("aten::masked_scatter", 0, [[ROWS, WIDTH, HIDDEN], [ROWS, WIDTH, HIDDEN], [300, HIDDEN]])
            b.run("aten::addmm", us, [[256], [ROWS * WIDTH, HIDDEN], [HIDDEN, 256]])
            if kept:
                b.run("aten::cat", 0, [[[0], [ROWS, HEADS, WIDTH, HIDDEN // HEADS]], []])
            b.attend(attention_us, WIDTH, WIDTH, causal=causal, mask=mask)
            if crosses:
                b.attend(0, WIDTH, crosses, causal=False)
            if decodes:
                b.run("aten::embedding", 0, [[WORDS, HIDDEN], [ROWS, 1]])
            b.run("aten::addmm", rest_us, [[256], [ROWS, HIDDEN], [HIDDEN, 256]])
            if training:
                with b.backward("AddmmBackward0", seq=number):
                    pass
            if device:
                b.sync()
    return b


# 9 of 10 ms are on the places of the prompts. Of 8 ms four fifths are the prefix's, of attention's 1 ms 0.64: 7.04 ms at most.
@fires(
    cost_ms=9.0,
    cost_share=0.9,
    occurrences=3,
    severity="high",
    fix="Compute the prefix's keys and values once, and expand them to the batch",
)
def instructions_before_each_prompt() -> TraceBuilder:
    return answering()


@fires(cost_ms=9.0, severity="high", occurrences=3)
def the_same_on_a_gpu() -> TraceBuilder:
    return answering(V100)


@fires(cost_ms=9.0, occurrences=3)
def prompts_whose_padding_is_masked_and_that_are_kept_in_a_cache() -> TraceBuilder:
    return answering(causal=False, mask=True, kept=True)


@fires(cost_ms=9.0, occurrences=3)
def scores_of_texts_without_a_cache() -> TraceBuilder:
    return answering(decodes=False)


# An encoder: each token sees all others, those of the text as well.
@quiet
def attention_that_looks_both_ways() -> TraceBuilder:
    return answering(causal=False, decodes=False)


@quiet
def attention_that_looks_both_ways_and_a_cache() -> TraceBuilder:
    return answering(causal=False, kept=True)


# A mask may be of padding, or of what lies ahead.
@quiet
def a_mask_alone() -> TraceBuilder:
    return answering(causal=False, mask=True)


# A decoder that looks at an encoder's output: keys of its tokens differ with that.
@quiet
def attention_to_something_else_as_well() -> TraceBuilder:
    return answering(crosses=50)


@quiet
def features_of_an_image_among_the_tokens() -> TraceBuilder:
    return answering(image=True)


@quiet("not_applicable")
def training() -> TraceBuilder:
    return answering(training=True)


@quiet("not_applicable")
def prompts_that_nobody_looked_at() -> TraceBuilder:
    return answering(told=False)


@quiet
def prompts_that_begin_otherwise() -> TraceBuilder:
    return answering(prefix=0)


@quiet
def prompts_no_longer_than_the_prefix() -> TraceBuilder:
    return answering(prefix=WIDTH)


@edge
def sixteen_tokens(over: bool) -> TraceBuilder:
    return answering(prefix=16 if over else 15)


# Of four fifths of 365 us return three quarters to all: 255.5 of 8,355 us in the middle, and of 350 us 245 of 8,340.
@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    return answering(us=355 if over else 340, attention_us=0, rest_us=7990)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return answering(shapes=False)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn").ran_with(prompts=Prompts(entries=WORDS, tokens=PREFIX))


@lacks("shapes")
def an_operator_without_shapes() -> TraceBuilder:
    return host_alone("aten::embedding").ran_with(prompts=Prompts(entries=WORDS, tokens=PREFIX))
