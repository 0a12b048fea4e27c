"""Proof of cpu/expanded-table: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

POSITIONS, TABLE, WIDTH = 128, 16, 32


def steps(
    *,
    queries: int = 4,
    table: int = TABLE,
    heads: int = 1,
    shared: bool = False,
    taken: bool = True,
    pooled: bool = False,
    tables: int = 1,
    multiplied: int = 1,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 20 ms: a lookup of a vector for all pairs and its product with some queries of each position, of 1 ms each.

    Their backward passes take twice that. With *shared* one matrix takes all vectors; without *taken* they are added to something.
    Of several *tables* the first ones are *multiplied*; with *pooled* weights add the vectors of the last one up as well.
    """
    b = TraceBuilder(device, host_us=2 if device else 0, record_shapes=shapes, profile_memory=True)
    batch, rows = heads * POSITIONS, heads * POSITIONS * POSITIONS
    vectors = [batch, POSITIONS, WIDTH]

    def run(name: str, operands: list[list[int]], seq: int | None = None, us: float = 1000, kept: int = 0) -> None:
        with b.op(name, shapes=operands, us=0 if device else us, seq=seq):
            if kept:
                b.memory(4 * kept, device=0 if device else -1)
            if device:
                b.kernel("elementwise_kernel", us=us)

    for step in range(3):
        seq = 10 * step
        with b.step():
            source = [heads, table, WIDTH] if heads > 1 else [table, WIDTH]
            for number in range(tables):
                run("aten::index", [source, []], seq + 3 * number, kept=rows * WIDTH)
            if not taken:
                run("aten::add", [vectors, vectors, []], seq + 1)
            elif shared:
                run("aten::matmul", [vectors, [WIDTH, 8]], seq + 1)
            else:
                for number in range(multiplied):
                    with b.op("aten::einsum", shapes=[[queries, batch, WIDTH], vectors, []], seq=seq + 3 * number + 1):
                        run("aten::bmm", [[batch, queries, WIDTH], [batch, WIDTH, POSITIONS]])
            if pooled:
                with b.op("aten::einsum", shapes=[[queries, batch, POSITIONS], vectors, []], seq=seq + 2):
                    run("aten::bmm", [[batch, queries, POSITIONS], vectors])
            for number in reversed(range(multiplied)):
                for node, name in ((1, "BmmBackward0"), (0, "IndexBackward0")):
                    with b.backward(name, seq + 3 * number + node):
                        run("aten::bmm" if node else "aten::_index_put_impl_", [vectors, []], us=2000)
            run("aten::mkldnn_linear", [[64, 64], [64, 64]], us=14_000)
    return b


# Four queries of 128 positions with 16 rows are 8,192 numbers, and 65,536 are picked: 0.14 of 524,288 that are looked up. The
# arithmetic, 3 x 2 x 262,144 at 20 GFLOP/s, takes 0.08 of 6 ms: 0.13 of their time. So 0.85 of 6 ms of 20.
@fires(cost_ms=6.0, occurrences=3, severity="high")
def types_of_edges() -> TraceBuilder:
    return steps()


# Each head has a table of its own.
@fires(cost_ms=6.0, occurrences=3)
def distances_of_each_head() -> TraceBuilder:
    return steps(queries=1, heads=2, table=32)


# Attention adds the vectors up by its weights: they are looked up anyway.
@quiet
def vectors_that_are_pooled_as_well() -> TraceBuilder:
    return steps(pooled=True)


# Tables for keys and for values: which product takes which is not told.
@quiet
def tables_for_keys_and_values() -> TraceBuilder:
    return steps(pooled=True, tables=2)


# Each table has its product: 6 ms each.
@fires(cost_ms=12.0, occurrences=6)
def tables_for_two_products() -> TraceBuilder:
    return steps(tables=2, multiplied=2)


# 24 queries of each position: 24 of 32 numbers would be picked.
@quiet
def queries_of_many_heads_and_sequences() -> TraceBuilder:
    return steps(queries=24)


# Not eight vectors for each row of the table.
@quiet
def a_table_as_large_as_what_is_looked_up() -> TraceBuilder:
    return steps(table=POSITIONS * POSITIONS // 4)


# One matrix for all: kernels/layer-on-gathered.
@quiet
def a_layer_on_the_vectors() -> TraceBuilder:
    return steps(shared=True)


@quiet
def vectors_that_are_added() -> TraceBuilder:
    return steps(taken=False)


# Numbers of the product and of the picks: q x (16 / 128 + 1) / 32 of the vectors', at most a half: up to 14 queries.
@edge
def half_of_the_numbers(over: bool) -> TraceBuilder:
    return steps(queries=14 if over else 15)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(device="Tesla V100-SXM2-16GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)
