"""Proof of kernels/rebuilt-mask: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
T, H = 1024, 8
TABLE = [H, T, T]
RANGE = ["4096", "", "", "", "False"]


def step_of(
    *,
    us: float = 500,
    layers: int = 4,
    lengths: tuple[int, ...] = (T, T, T),
    other: str = "",
    slopes: bool = False,
    written: bool = False,
    scores_first: bool = False,
    copied: bool = False,
    shapes: bool = True,
    factories: bool = True,
) -> TraceBuilder:
    """Steps of 30 ms: in each layer distances of 100 us, their product with slopes, a mask and a cast of *us* each.

    *lengths* are those of the steps; *other* is an operand that the second operator takes besides; *slopes*: they come from
    outside. *written*: the layer writes into the table afterwards. *copied*: it is moved to the GPU on the way.
    """
    b = TraceBuilder(H100, host_us=1, record_shapes=shapes)

    def run(
        name: str, time: float, operands: list[list[int]], dtypes: list[str], values: list[str] | None = None
    ) -> None:
        with b.op(name, shapes=operands, dtypes=dtypes, values=values or [""] * len(operands), us=0 if time else 1):
            if time:
                b.kernel("elementwise_kernel", us=time)

    def build(length: int) -> None:
        table, square = [H, length, length], [length, length]
        if factories:
            run("aten::arange", 1, [[]] * 5, ["Scalar", "", "", "", "Scalar"], [str(length), *RANGE[1:]])
        run("aten::unsqueeze", 0, [[length], []], ["long int", "Scalar"], ["", "0"])
        run("aten::unsqueeze", 0, [[length], []], ["long int", "Scalar"], ["", "1"])
        run("aten::sub", 100, [[1, length], [length, 1], []], ["long int", "long int", "Scalar"], ["", "", "1"])
        if not slopes:
            run("aten::arange", 1, [[]] * 5, ["Scalar", "", "", "", "Scalar"], [str(H), *RANGE[1:]])
            run("aten::view", 0, [[H], []], ["long int", "ScalarList"], ["", f"[{H}, 1, 1]"])
        run("aten::mul", us, [[H, 1, 1], square], ["long int", "long int"])
        if other:
            run("aten::add", us, [table, [1, length, length]], ["float", other])
        run("aten::gt", 100, [square, []], ["long int", "Scalar"], ["", "0"])
        run("aten::masked_fill", us, [table, square, []], ["float", "bool", "Scalar"], ["", "", "-inf"])
        if copied:
            with b.op("aten::to", shapes=[table, []], dtypes=["float", "Device"], values=["", "cuda"]):
                b.copy("HtoD", nbytes=1 << 20, us=us)
        run("aten::to", us, [table, [], []], ["float", "Scalar", "Scalar"], ["", "15", "False"])

    for length in lengths:
        with b.step():
            for _ in range(layers):
                table, heads = [H, length, length], [2, H, length, 64]
                if scores_first:
                    run("aten::div", 100, [table, []], ["float", "double"])
                with b.python("model.py(19): bias"):
                    build(length)
                if written:
                    run("aten::add_", us, [table, [2, 1, length, 1], []], ["c10::BFloat16", "c10::BFloat16", "Scalar"])
                with b.op("aten::scaled_dot_product_attention", shapes=[heads, heads, heads, table]):
                    b.kernel("fmha_cutlassF_bf16_aligned", us=1000)
            b.kernel("nvjet_sm90_tst_256x128", us=30_000 - layers * (1000 + 202 + 3 * us))
            b.sync()
    return b


# In four layers a product, a mask and a cast of 0.5 ms each, two of 0.1 ms and two ranges: 4 x 1.702 ms of 30.
@fires(cost_ms=6.808, occurrences=12, severity="high", op="aten::mul", line="model.py:19")
def a_bias_of_distances_in_each_layer() -> TraceBuilder:
    return step_of()


@fires(cost_ms=1.702, occurrences=3)
def one_in_each_step() -> TraceBuilder:
    return step_of(layers=1)


# Other lengths in each step: one of the four is built in each.
@fires(cost_ms=5.106, occurrences=9)
def of_another_length_in_each_step() -> TraceBuilder:
    return step_of(lengths=(T, T + 8, T + 16))


@quiet
def one_of_another_length_in_each_step() -> TraceBuilder:
    return step_of(layers=1, lengths=(T, T + 8, T + 16))


# Slopes may be a parameter, or lengths of a batch: of numbers alone are distances and a comparison, 0.2 ms in each layer.
@edge
def slopes_from_outside(over: bool) -> TraceBuilder:
    return step_of(layers=2, slopes=not over)


@quiet
def the_layer_writes_into_it() -> TraceBuilder:
    return step_of(written=True)


# The mask may be filled into the scores, which are as large, and the cast of them: ranges, distances, products and comparisons go.
@fires(cost_ms=2.808)
def scores_of_that_shape_are_at_hand() -> TraceBuilder:
    return step_of(scores_first=True)


@quiet
def made_on_the_host() -> TraceBuilder:
    return step_of(copied=True)


@quiet
def nothing_tells_that_it_is_made_of_numbers() -> TraceBuilder:
    return step_of(factories=False, slopes=True)


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone("elementwise_kernel")


@lacks("gpu")
def launches_alone_were_recorded() -> TraceBuilder:
    return launches_alone()


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return step_of(shapes=False)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    """Of 202 us and three times *us* 95 % go: 2 % of 30 ms are 632 us."""
    return step_of(layers=1, us=145 if over else 140)
