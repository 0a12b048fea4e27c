"""Proof of inference/token-python: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import SGLANG, annotation

A100 = "NVIDIA A100-PCIE-40GB"
WIDTH, HEAD, WORDS = 1024, 64, 32_000


def generating(
    device: str | None = A100,
    *,
    us: float = 500,
    tokens: int = 21,
    function: str = "choose",
    every: int = 1,
    queries: int = 1,
    looked_up: int = 1,
    run_us: float = 3000,
    eager: bool = False,
    shapes: bool = True,
    engine: bool = False,
    read: bool = True,
    backward: bool = False,
) -> TraceBuilder:
    """Runs of 3 ms for a token each, and between two of them so many us in a function of Python, which has waited for the token."""
    b = TraceBuilder(device, record_shapes=shapes, with_stack=True, host_us=1, latency_us=0)
    for number in range(tokens):
        with b.python("serve.py(20): generate"):
            with b.op("aten::embedding", shapes=[[WORDS, WIDTH], [1, looked_up], [], [], []], us=1):
                pass
            with b.annotation(annotation(SGLANG, decoding=1)) if engine else nullcontext():
                query, keys = [1, 16, queries, HEAD], [1, 16, 100 + number, HEAD]
                scores = [1, 16, queries, 100 + number]
                with b.op("aten::addmm", shapes=[[3 * WIDTH], [queries, WIDTH], [WIDTH, 3 * WIDTH]], us=1):
                    pass
                name = "aten::softmax" if eager else "aten::scaled_dot_product_attention"
                with b.op(name, shapes=[scores, [], []] if eager else [query, keys, keys], us=1):
                    pass
                with b.op("aten::mm", shapes=[[queries, WIDTH], [WIDTH, WORDS]], us=0 if device else run_us):
                    if device:
                        b.kernel("gemv2T_kernel_val", us=run_us)
            if device and read:
                b.item()
            if number % every == every - 1:
                with b.python(f"serve.py(40): {function}"):
                    b.idle(us=us)
        if backward:
            with b.backward("MmBackward0", seq=number):
                pass
    return b


# Of 21 runs twenty are behind another: half a ms each, and 8 us of calls around it, in 71 ms and a little.
@fires(
    cost_ms=10.16,
    severity="medium",
    occurrences=20,
    line="serve.py:40",
    fix="Choose tokens in operators, and look at the text every few of them",
)
def a_token_is_chosen_in_python() -> TraceBuilder:
    return generating()


@fires(cost_ms=10.16, fix="Turn only new tokens into text, and every few of them")
def the_text_is_decoded_with_each_token() -> TraceBuilder:
    return generating(function="decode")


@fires(cost_ms=10.0, occurrences=20, line="serve.py:40")
def the_same_on_a_cpu() -> TraceBuilder:
    return generating(None)


@fires(cost_ms=10.16)
def attention_that_is_computed_as_scores() -> TraceBuilder:
    return generating(eager=True)


@quiet
def a_loop_that_only_appends_the_token() -> TraceBuilder:
    return generating(us=20)


@quiet
def python_between_the_prompts_of_an_encoder() -> TraceBuilder:
    return generating(queries=120, looked_up=120)


@quiet
def classes_that_each_are_looked_up_once() -> TraceBuilder:
    return generating(queries=120)


# Nothing reads the token: the host is ahead, and the device does not wait.
@quiet
def python_behind_which_the_device_works() -> TraceBuilder:
    return generating(read=False)


# What looks at the text every eighth token is as the fix has it.
@quiet
def every_eighth_token() -> TraceBuilder:
    return generating(every=8, us=4000)


@quiet("not_applicable")
def training() -> TraceBuilder:
    return generating(backward=True)


@quiet("not_applicable")
def an_engine_that_annotates_its_batches() -> TraceBuilder:
    return generating(engine=True)


@edge
def a_fifth_of_a_ms(over: bool) -> TraceBuilder:
    return generating(us=205 if over else 190, run_us=1000)


# Of what costs 4.1 % of the time, 72.5 % return.
@edge
def three_percent_of_the_time(over: bool) -> TraceBuilder:
    return generating(us=500, run_us=11_000 if over else 12_500)


@edge
def a_third_of_the_tokens(over: bool) -> TraceBuilder:
    return generating(every=3 if over else 4, us=2000)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return generating(shapes=False)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    b = TraceBuilder(A100)
    b.kernel("gemv2T_kernel_val", us=50, launched=False)
    return b


@lacks("shapes")
def an_operator_without_shapes() -> TraceBuilder:
    return host_alone("aten::embedding")
