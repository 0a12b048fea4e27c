"""Proof of kernels/repeated-rows: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
Shape = list[int]
NODES, WIDTH = 64, 32
EACH = [NODES, NODES, WIDTH]
FIRST, SECOND, OWN = [WIDTH, 0, 1], [0, WIDTH, 1], [NODES * WIDTH, WIDTH, 1]
JOINED = [NODES, NODES, 2 * WIDTH]
LAYER = ("aten::linear", [JOINED, [16, 2 * WIDTH], [16]])


def steps(
    taker: tuple[str, list[Shape]] = LAYER,
    *,
    strides: tuple[Shape, ...] = (FIRST, SECOND),
    us: float = 500,
    backward_us: float = 0,
    shapes: bool = True,
    device: str | None = H100,
) -> TraceBuilder:
    """Steps of 10 ms: rows of all pairs are put together and go through a layer, *us* each, then a product."""
    b = TraceBuilder(device, host_us=1, record_shapes=shapes)
    name, dims = taker

    def kernel(what: str, time: float) -> None:
        if device:
            b.kernel(what, us=time)

    for number in range(3):
        with b.step():
            told = {"shapes": [[EACH for _ in strides], []], "values": ["", "-1"], "strides": [list(strides), []]}
            with b.op("aten::cat", us=1, **told):
                kernel("CatArrayBatchedCopy", us)
            with b.op(name, shapes=dims, us=1), b.op("aten::addmm", seq=number + 1 if backward_us else None, us=1):
                kernel("nvjet_tst_64x64", us)
            if backward_us:
                product = [[NODES * NODES, 16], [16, 2 * WIDTH]]
                with b.backward("AddmmBackward0", number + 1), b.op("aten::mm", shapes=product, us=1):
                    kernel("nvjet_nnt_64x64", backward_us)
            with b.op("aten::mm", us=1):
                kernel("nvjet_tst_128x128", 10_000 - 2 * us - backward_us)
            if device:
                b.sync()
    return b


# 1 of 10 ms, of which 6 us are kernels of any size, and 4,096 rows of 16 numbers, 0.7 us, are written anyway: 80 % of the rest.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=3, severity="medium", op="aten::cat")
def expanded_rows_of_all_pairs() -> TraceBuilder:
    return steps()


@fires(cost_ms=1.5)
def with_the_layers_backward_pass() -> TraceBuilder:
    return steps(backward_us=500)


# Half of the columns: half of the time.
@fires(cost_ms=1.0, severity="low")
def beside_columns_of_each_pair() -> TraceBuilder:
    return steps(strides=(FIRST, OWN))


@quiet
def rows_that_are_there_once() -> TraceBuilder:
    return steps(strides=(OWN, OWN))


@quiet
def a_normalization_takes_them() -> TraceBuilder:
    return steps(("aten::layer_norm", [JOINED, [], [2 * WIDTH], [2 * WIDTH]]))


# 4,096 rows of 65,536 numbers at 400 GB/s are 2.7 ms: more than all of it.
@quiet
def a_layer_with_a_wide_output() -> TraceBuilder:
    return steps(("aten::linear", [JOINED, [65_536, 2 * WIDTH], [65_536]]))


@quiet("not_applicable")
def a_program_on_the_cpu() -> TraceBuilder:
    return steps(device=None)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    """Of twice *us* but 6.7 us 80 % are 2 % of 10 ms from 128.3 us on."""
    return steps(us=130 if over else 127)


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone("vectorized_elementwise_kernel")


@lacks("gpu")
def launches_alone_were_recorded() -> TraceBuilder:
    return launches_alone("aten::add")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)
