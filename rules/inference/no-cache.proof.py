"""Proof of inference/no-cache: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet

V100 = "Tesla V100-SXM2-16GB"
WIDTH = 1024


def linear(b: TraceBuilder, shape: list[int], us: float) -> None:
    """A product of so many us: on the GPU where there is one, else on the CPU."""
    with b.op("aten::linear", shapes=[shape, [WIDTH, WIDTH], []]):
        if b.on_gpu:
            with b.op("aten::addmm", shapes=[[WIDTH], [shape[0] * shape[1], WIDTH], [WIDTH, WIDTH]]):
                b.kernel("volta_sgemm_128x64_tn", us=us)
        else:
            with b.op("aten::addmm", shapes=[[WIDTH], [shape[0] * shape[1], WIDTH], [WIDTH, WIDTH]], us=us):
                pass


class Host(TraceBuilder):
    """A trace that knows whether it has a GPU."""

    def __init__(self, device: str | None, *, shapes: bool = True, dialect: str = "kineto") -> None:
        super().__init__(device, record_shapes=shapes, dialect=dialect, host_us=1, latency_us=0)
        self.on_gpu = device is not None


def generating(
    device: str | None = V100,
    *,
    tokens: int = 10,
    prompt: int = 640,
    sequences: int = 2,
    grows: int = 1,
    appended: bool = True,
    shapes: bool = True,
    backward: bool = False,
    product_us: float = 500,
    rest_us: float = 1000,
    attends: bool = False,
    dialect: str = "kineto",
) -> TraceBuilder:
    """Iterations of four products of 500 us and 1 ms of attention, on a text that grows by a token, or by none."""
    b = Host(device, shapes=shapes, dialect=dialect)
    for number in range(tokens):
        length = prompt + grows * number
        for _ in range(4):
            linear(b, [sequences, length, WIDTH], product_us)
        if device:
            with b.op("aten::scaled_dot_product_attention"):
                b.kernel("fmha_cutlassF_f32_aligned_64x64_rf_sm70", us=rest_us)
        else:
            queries = [[sequences, 8, length, 128]] * 3 if attends else []
            with b.op("aten::scaled_dot_product_attention", shapes=queries, us=rest_us):
                pass
        with b.op("aten::argmax", shapes=[[sequences, 50_000]], us=5):
            pass
        if appended:
            with b.op("aten::cat", shapes=[[[sequences, length], [sequences, 1]], []]):
                if device:
                    b.kernel("CatArrayBatchedCopy", us=2)
        if backward:
            with b.backward("AddmmBackward0", seq=number):
                pass
        if device:
            b.sync()
    return b


# Nine iterations of which the first is not counted, in one window of ten: 2 ms of products each.
@fires(cost_ms=18, severity="high", occurrences=36, fix="Keep keys and values between tokens")
def a_loop_that_computes_the_whole_text_for_each_token() -> TraceBuilder:
    return generating()


@fires(cost_ms=18, severity="high")
def a_shorter_text_on_a_cpu() -> TraceBuilder:
    return generating(None, prompt=64)


# Eight attentions lie between products of two tokens, of 1 ms each.
@fires(cost_ms=26, severity="high", occurrences=44)
def attention_on_a_cpu_is_of_one_row_too() -> TraceBuilder:
    return generating(None, prompt=64, attends=True)


@fires(cost_ms=18, severity="high", occurrences=36)
def a_trace_of_2021() -> TraceBuilder:
    return generating(dialect="2021")


@quiet
def one_row_for_each_token() -> TraceBuilder:
    return generating(prompt=1, grows=0)


@quiet
def a_text_of_which_the_rows_are_no_multiple() -> TraceBuilder:
    b = Host(V100)
    for number in range(12):
        linear(b, [1, 641 + 2 * number, WIDTH], 500)
    return b


@quiet("not_applicable")
def training_on_texts_that_grow() -> TraceBuilder:
    return generating(backward=True)


@quiet
def short_texts_on_a_gpu() -> TraceBuilder:
    return generating(prompt=8)


@edge
def five_tokens_that_are_appended(over: bool) -> TraceBuilder:
    return generating(tokens=5 if over else 4)


@edge
def eight_tokens_where_nothing_is_seen_to_be_appended(over: bool) -> TraceBuilder:
    return generating(tokens=8 if over else 7, appended=False)


# Of the products 67.5 % return, but for the 5 % of rows that are as fast as one: 64 of 1,288.
@edge
def two_percent_of_the_time(over: bool) -> TraceBuilder:
    return generating(product_us=10 if over else 7)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return generating(shapes=False)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    b = TraceBuilder(V100)
    b.kernel("volta_sgemm_128x64_tn", us=500, launched=False)
    return b


@lacks("shapes")
def an_operator_without_shapes() -> TraceBuilder:
    return host_alone("aten::linear")
