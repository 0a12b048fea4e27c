"""Proof of kernels/layer-on-gathered: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

NODES, EDGES, WIDTH = 4000, 40_000, 64
A100 = "NVIDIA A100-SXM4-80GB"
STEP_US = 20_000
SPLIT = "Split the layer's weight by columns: run each gathered part on its source, and gather what it gives"


def step_of(
    gather: str = "aten::index_select",
    *,
    nodes: int = NODES,
    outputs: int = WIDTH,
    layer: str = "aten::linear",
    between: str = "",
    beside: bool = False,
    used_again: bool = False,
    train: bool = True,
    us: float = 1000,
    memory: bool = True,
    device: str | None = None,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of 20 ms: a gather, a layer and an activation in *us* each, and twice that for each backward pass.

    With *beside* the layer takes other rows as large, and what was gathered is added to what it gives.
    """
    b = TraceBuilder(device, host_us=2 if device else 0, record_shapes=shapes, profile_memory=memory)
    rows, given = [EDGES, WIDTH], [EDGES, outputs]
    place = 0 if device else -1

    def run(name: str, time: float, operands: list[list[int]], *values: str, seq: int | None = None) -> None:
        gpu = device is not None
        with b.op(name, shapes=operands, us=0 if gpu else time, seq=seq, values=list(values) or None):
            if gpu and time:
                b.kernel("elementwise_kernel", us=time)

    for step in range(3):
        seq = 10 * step
        with b.step():
            operands, values = {
                "aten::index_select": ([[nodes, WIDTH], [], [EDGES]], ["", "0", ""]),
                "aten::index": ([[nodes, WIDTH], []], ["", ""]),
                "aten::embedding": ([[nodes, WIDTH], [100, EDGES // 100], [], [], []], ["", "", "-1", "", ""]),
            }[gather]
            with b.op(gather, shapes=operands, values=values, us=0 if device else us, seq=seq):
                rows_of = b.memory(4 * EDGES * WIDTH, device=place)
                if device:
                    b.kernel("elementwise_kernel", us=us)
            if between:
                run(between, 100, [rows, *([rows] if between == "aten::add" else [[], []])], "", "0.5", "True")
                b.release(rows_of)
            weight = [outputs, WIDTH] if layer == "aten::linear" else [WIDTH, outputs]
            with b.op(layer, shapes=[rows, weight], us=0 if device else us, seq=seq + 1):
                with b.op("aten::t", shapes=[weight]):  # as a whole, linear is one of an accelerator
                    pass
                made = b.memory(4 * EDGES * outputs, device=place)
                if device:
                    b.kernel("volta_sgemm_128x64_nn", us=us)
            if not (train or between or beside):
                b.release(rows_of)
            if beside:
                run("aten::add", us, [given, rows, []])
                b.release(rows_of)
            with b.op("aten::relu", shapes=[given], us=0 if device else us, seq=seq + 2):
                active = b.memory(4 * EDGES * outputs, device=place)
                if device:
                    b.kernel("elementwise_kernel", us=us)
            b.release(made)
            run("aten::index_add", 100, [[nodes, outputs], [], [EDGES], given, []])
            if used_again:
                run("aten::mul", 100, [rows, rows])
            if not train:
                b.release(active)
            run("aten::softmax", STEP_US - 100 - (9 if train else 3) * us, [[4, 10]])
            if train:
                with b.backward("ReluBackward0", seq + 2):
                    run("aten::threshold_backward", 2 * us, [given, given, []])
                    b.release(active)
                with b.backward("AddmmBackward0", seq + 1):
                    run("aten::mm", 2 * us, [given, weight])
                    if not (between or beside):
                        b.release(rows_of)
                with b.backward("IndexSelectBackward0", seq):
                    run("aten::index_add_", 2 * us, [[nodes, WIDTH], [], [EDGES], rows, []])
            if device:
                b.sync()
    return b


def joined(
    *,
    nodes: int = NODES,
    width: int = WIDTH,
    outputs: int = WIDTH,
    between: str = "",
    taken_twice: bool = False,
    first_dimension: bool = False,
    gather: str = "aten::index_select",
    us: float = 1000,
) -> TraceBuilder:
    """Steps of 20 ms: both ends of each edge and 4 numbers of its own are put together for a layer; each operator takes *us*."""
    b = TraceBuilder(None, host_us=0, record_shapes=True, profile_memory=True)
    rows, edges = [EDGES, width], [EDGES, 4]
    columns, given = [EDGES, 2 * width + 4], [EDGES, outputs]
    operands, values = {
        "aten::index_select": ([[nodes, width], [], [EDGES]], ["", "0", ""]),
        "aten::index": ([[nodes, width], []], ["", ""]),
    }[gather]
    for step in range(3):
        seq = 10 * step
        with b.step():
            ends = []
            for end in range(2):
                with b.op(gather, shapes=operands, values=values, us=us, seq=seq + end):
                    ends.append(b.memory(4 * EDGES * width, device=-1))
            along = "0" if first_dimension else "-1"
            with b.op("aten::cat", shapes=[rows, edges, rows, []], values=["", along], us=us, seq=seq + 2):
                together = b.memory(4 * EDGES * columns[1], device=-1)
            for end in ends:
                b.release(end)
            if between:
                with b.op(between, shapes=[columns, [], []], values=["", "0.5", "True"], us=us):
                    dropped = b.memory(4 * EDGES * columns[1], device=-1)
                b.release(together)
                together = dropped
            weight = [outputs, columns[1]]
            with b.op("aten::linear", shapes=[columns, weight], us=3 * us, seq=seq + 3):
                with b.op("aten::t", shapes=[weight]):  # as a whole, linear is one of an accelerator
                    pass
                made = b.memory(4 * EDGES * outputs, device=-1)
            if taken_twice:
                with b.op("aten::linear", shapes=[columns, weight], us=3 * us, seq=seq + 4):
                    with b.op("aten::t", shapes=[weight]):
                        pass
                    gate = b.memory(4 * EDGES * outputs, device=-1)
                with b.op("aten::mul", shapes=[given, given], us=us):
                    pass
                b.release(gate)
            with b.op("aten::sum", shapes=[given], us=20_000 - (6 + 8 + bool(between) + 4 * taken_twice) * us):
                pass
            b.release(made)
            with b.backward("AddmmBackward0", seq + 3), b.op("aten::mm", shapes=[given, weight], us=6 * us):
                b.release(together)
            for end in range(2):
                back = [[nodes, width], [], [EDGES], rows, []]
                with b.backward("IndexSelectBackward0", seq + end), b.op("aten::index_add_", shapes=back, us=us):
                    pass
    return b


# Two gathers, what puts them together and the layer, 6 ms, and 8 of their gradients.
@fires(cost_ms=14.0, occurrences=3, severity="high", op="aten::linear", fix=SPLIT)
def both_ends_of_an_edge() -> TraceBuilder:
    return joined()


@fires(cost_ms=14.0)
def both_ends_by_an_index() -> TraceBuilder:
    return joined(gather="aten::index")


@quiet
def columns_of_fewer_copies_than_rows() -> TraceBuilder:
    return joined(nodes=30_000)


# Gathers of four numbers would become sixteen times as wide.
@quiet
def narrow_ends_and_a_wide_layer() -> TraceBuilder:
    return joined(width=4, outputs=256)


@quiet
def columns_with_dropout_of_their_own() -> TraceBuilder:
    return joined(between="aten::dropout")


@quiet
def columns_that_two_layers_take() -> TraceBuilder:
    return joined(taken_twice=True)


@quiet
def rows_that_are_put_behind_each_other() -> TraceBuilder:
    return joined(first_dimension=True)


# Gather, layer and activation with their gradients: nine times 1 ms of 20.
@fires(cost_ms=9.0, occurrences=3, severity="high", op="aten::linear")
def messages_along_the_edges() -> TraceBuilder:
    return step_of()


@fires(cost_ms=9.0)
def rows_by_an_index() -> TraceBuilder:
    return step_of("aten::index")


@fires(cost_ms=9.0)
def tokens_of_a_small_vocabulary() -> TraceBuilder:
    return step_of("aten::embedding")


@fires(cost_ms=9.0, op="aten::matmul")
def a_product_with_a_weight() -> TraceBuilder:
    return step_of(layer="aten::matmul")


@fires(cost_ms=3.0)
def in_inference() -> TraceBuilder:
    return step_of(train=False)


@fires(cost_ms=9.0)
def on_a_gpu() -> TraceBuilder:
    return step_of(device=A100)


# Without memory it is told by numbers: one tensor of this size is made, and one is taken. What follows is not counted.
@fires(cost_ms=6.0)
def memory_was_not_recorded() -> TraceBuilder:
    return step_of(outputs=32, memory=False)


@quiet
def fewer_copies_than_rows() -> TraceBuilder:
    return step_of(nodes=30_000)


@quiet
def each_copy_has_dropout_of_its_own() -> TraceBuilder:
    return step_of(between="aten::dropout")


@quiet
def another_tensor_of_the_edges_is_added() -> TraceBuilder:
    return step_of(between="aten::add")


# The layer takes states of the edges: what was gathered is freed behind the sum.
@quiet
def the_layer_takes_states_of_the_edges() -> TraceBuilder:
    return step_of(beside=True)


@quiet
def which_of_two_it_takes_is_not_told() -> TraceBuilder:
    return step_of(outputs=32, memory=False, used_again=True)


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone("elementwise_kernel")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return step_of(shapes=False)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    """Of 9 times *us* a tenth of six remains, and the gather's three: 5.4 go, and of 20 ms the middle of what returns is 2 %."""
    return step_of(us=86 if over else 82)
