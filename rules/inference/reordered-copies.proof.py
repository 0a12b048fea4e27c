"""Proof of inference/reordered-copies: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet

A100 = "NVIDIA A100-PCIE-40GB"
ROWS, HEADS, HEAD = 24, 8, 32


def searching(
    device: str | None = None,
    *,
    tokens: int = 10,
    source: int = 140,
    picks: int = 2,
    pick: str = "aten::index_select",
    between: tuple[str, list[list[int]]] | None = None,
    reads: bool = True,
    grows: bool = True,
    indices: int = ROWS,
    us: float = 100,
    rest_us: float = 800,
    missing: int | None = None,
    allocated: bool = False,
    shapes: bool = True,
    backward: bool = False,
) -> TraceBuilder:
    """Turns of a beam search: products, two caches that grow and are reordered, and picks of what attention reads of the source."""
    b = TraceBuilder(device, record_shapes=shapes, host_us=1, latency_us=0)

    def call(name: str, dims: list[object], us: float) -> None:
        with b.op(name, shapes=dims, us=0 if device else us):
            if device:
                b.kernel("void at::native::vectorized_elementwise_kernel", us=us)

    constant = [ROWS, HEADS, source, HEAD]
    nbytes = 4 * ROWS * HEADS * source * HEAD
    for number in range(tokens):
        with b.python("translate.py(20): beam_search"):
            call("aten::mm", [[ROWS, 256], [256, 256]], rest_us)
            old = [ROWS, HEADS, 1 + (number if grows else 0), HEAD]
            longer = [*old[:2], old[2] + 1, HEAD]
            for _ in range(2):
                call("aten::cat", [[old, [ROWS, HEADS, 1, HEAD]], []], 5)
            if reads:
                query = [ROWS, HEADS, 1, HEAD]
                call("aten::scaled_dot_product_attention", [query, constant, constant, [], [], [], [], []], 50)
            if between:
                call(between[0], between[1] or [constant], 10)
            if allocated:
                b.memory(nbytes, device=-1)
            for _ in range(2):
                call(pick, [longer, [], [ROWS]], 5)
            for _ in range(picks if number != missing else 0):
                with b.op(pick, shapes=[constant, [], [indices]], us=0 if device else us):
                    if allocated:
                        b.memory(nbytes, device=-1)
                    if device:
                        b.kernel("void at::native::indexSelectLargeIndex", us=us)
            if backward:
                with b.backward("CatBackward0", seq=number):
                    pass
            if device:
                b.sync()
    return b


@fires(cost_ms=2, severity="high", occurrences=20)
def caches_of_the_source_in_each_turn() -> TraceBuilder:
    return searching()


@fires(cost_ms=2, occurrences=20)
def the_same_on_a_gpu() -> TraceBuilder:
    return searching(A100)


@fires(cost_ms=2, occurrences=20)
def picked_by_indices_in_brackets() -> TraceBuilder:
    return searching(pick="aten::index")


@fires(cost_ms=2, occurrences=20)
def views_between_the_picks() -> TraceBuilder:
    return searching(between=("aten::transpose", []))


# The text's own caches need it.
@quiet
def caches_that_grow_alone() -> TraceBuilder:
    return searching(picks=0)


# A cache of a fixed length holds the text: its rows are written, one token in each turn.
@quiet
def a_cache_that_is_written() -> TraceBuilder:
    return searching(between=("aten::slice", []))


@quiet
def a_cache_that_is_written_by_index() -> TraceBuilder:
    return searching(between=("aten::index_copy_", []))


# A state that each turn computes anew: a recurrent decoder's.
@quiet
def a_state_of_the_search() -> TraceBuilder:
    return searching(between=("aten::tanh", []))


@quiet
def what_a_product_computes_in_each_turn() -> TraceBuilder:
    return searching(between=("aten::matmul", [[ROWS, HEADS, 140, HEAD], [HEAD, HEAD]]))


# It is allocated outside of the picks: what is picked is new.
@quiet
def what_is_made_in_each_turn() -> TraceBuilder:
    return searching(allocated=True)


@quiet
def what_no_attention_reads() -> TraceBuilder:
    return searching(reads=False)


@quiet
def a_search_whose_text_does_not_grow() -> TraceBuilder:
    return searching(grows=False)


@quiet
def a_few_rows_of_it() -> TraceBuilder:
    return searching(indices=8)


@quiet
def not_in_every_turn() -> TraceBuilder:
    return searching(missing=5)


@quiet("not_applicable")
def training() -> TraceBuilder:
    return searching(backward=True)


# The second turn's concatenation puts a token behind one; of the others the first tells nothing.
@edge
def seven_tokens(over: bool) -> TraceBuilder:
    return searching(tokens=7 if over else 5)


# Three quarters of the picks return.
@edge
def one_percent_of_the_time(over: bool) -> TraceBuilder:
    return searching(us=6.5 if over else 5)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return searching(shapes=False)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    b = TraceBuilder(A100)
    b.kernel("void at::native::indexSelectLargeIndex", us=50, launched=False)
    return b


@lacks("shapes")
def an_operator_without_shapes() -> TraceBuilder:
    return host_alone("aten::index_select")
