"""Proof of kernels/dense-experts: traces on which it fires, and traces on which it does not."""

from contextlib import AbstractContextManager, nullcontext

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

TOKENS, WIDTH, INNER = 4096, 1024, 4096
GEMM = "ampere_sgemm_128x64_tn"


def linear(b: TraceBuilder, rows: int, columns: int, wide: int, us: float) -> None:
    with b.op("aten::linear", shapes=[[rows, wide], [columns, wide], []]), b.op("aten::addmm"):
        b.kernel(GEMM, us=us)


def training(
    experts: int = 4,
    *,
    chosen: int = 1,
    rows: int = TOKENS,
    products: int | None = None,
    choice: str = "aten::topk",
    us: float = 1000,
    rest_us: float = 4000,
    shapes: bool = True,
    expert: str = "",
) -> TraceBuilder:
    """Steps of two layers of experts, each of two products of *us*, and 4 ms of attention; *expert* is a line of its own."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", record_shapes=shapes, with_stack=bool(expert))

    def called(frame: str) -> AbstractContextManager[object]:
        return b.python(frame) if expert else nullcontext()

    for _ in range(3):
        with b.step():
            for _ in range(2):
                linear(b, TOKENS, experts, WIDTH, 10)
                with b.op("aten::softmax", shapes=[[TOKENS, experts], [], []]):
                    b.kernel("softmax_warp_forward", us=10)
                with b.op(choice, shapes=[[TOKENS, experts], [], []], values=["", str(chosen), "-1"]):
                    b.kernel("gatherTopK", us=10)
                with called("moe.py(40): forward"), called("moe.py(58): <listcomp>"):
                    for _ in range(experts if products is None else products):
                        with called(expert):
                            linear(b, rows, INNER, WIDTH, us / 2)
                            with b.op("aten::gelu", shapes=[[rows, INNER]]):
                                b.kernel("gelu_kernel", us=1)
                            linear(b, rows, WIDTH, INNER, us / 2)
                with b.op("aten::stack"):
                    b.kernel("CatArrayBatchedCopy", us=10)
            with b.op("aten::_flash_attention_forward"):
                b.kernel("flash_fwd_kernel", us=rest_us)
            b.sync()
    return b


# Two layers of four experts of 1 ms each, and 1 us between their products: 8.008 of some 12 ms a step.
@fires(cost_ms=8.008, severity="high")
def four_experts_of_which_each_token_wants_one() -> TraceBuilder:
    return training()


# The line that calls one expert after the other is the one to change, not that of an expert.
@fires(cost_ms=8.008, line="moe.py:58")
def experts_of_a_class_with_a_line_of_its_own() -> TraceBuilder:
    return training(expert="feedforward.py(126): forward")


# Two layers of four experts on the CPU: each of two products of 500 us, with 1 us between them.
@fires(cost_ms=8.008)
def experts_on_the_cpu() -> TraceBuilder:
    def layer(columns: int, wide: int, us: float) -> None:
        with b.op("aten::linear", shapes=[[TOKENS, wide], [columns, wide], []]), b.op("aten::addmm", us=us):
            pass

    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step():
            for _ in range(2):
                layer(4, WIDTH, 10)
                with b.op("aten::topk", us=10, shapes=[[TOKENS, 4], [], []], values=["", "1", "-1"]):
                    pass
                for _ in range(4):
                    layer(INNER, WIDTH, 500)
                    with b.op("aten::gelu", us=1, shapes=[[TOKENS, INNER]]):
                        pass
                    layer(WIDTH, INNER, 500)
            with b.op("aten::mkldnn_convolution", us=4_000):
                pass
    return b


@fires(cost_ms=16.016)
def two_of_eight_experts() -> TraceBuilder:
    return training(8, chosen=2)


@fires(cost_ms=8.008)
def the_choice_of_an_argmax() -> TraceBuilder:
    return training(choice="aten::argmax")


@quiet
def experts_that_compute_their_own_tokens() -> TraceBuilder:
    return training(rows=TOKENS // 4)


@quiet
def every_expert_is_chosen() -> TraceBuilder:
    return training(chosen=4)


@quiet
def as_many_layers_as_a_classifier_has_classes_but_one() -> TraceBuilder:
    return training(products=3)


@quiet
def a_classifier_that_nothing_is_chosen_from() -> TraceBuilder:
    return training(choice="aten::log_softmax")


# Three quarters of the cost go, half or all of it: 2 % of the step are 3.5 % of it in experts.
@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return training(us=24 if over else 14)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("host")
def kernels_without_a_host() -> TraceBuilder:
    return kernels_alone(GEMM)
