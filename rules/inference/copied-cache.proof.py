"""Proof of inference/copied-cache: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet

A100 = "NVIDIA A100-PCIE-40GB"
HEADS, HEAD = 32, 128


def generating(
    device: str | None = A100,
    *,
    tokens: int = 10,
    text: int = 2000,
    grows: int = 1,
    new: int = 1,
    us: float = 50,
    rest_us: float = 900,
    rank: int = 4,
    transformers: bool = False,
    shapes: bool = True,
    backward: bool = False,
    reordered: str = "",
) -> TraceBuilder:
    """Iterations of 900 us of products and two concatenations of 50 us, of a cache that is a token longer each time."""
    b = TraceBuilder(device, record_shapes=shapes, host_us=1, latency_us=0)
    for number in range(tokens):
        with b.python("transformers/generation/utils.py(2500): _sample" if transformers else "serve.py(20): generate"):
            with b.op("aten::mm", shapes=[[1, 4096], [4096, 4096]], us=0 if device else rest_us):
                if device:
                    b.kernel("ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn", us=rest_us)
            for _ in range(2):
                old = [1, HEADS, text + grows * number, HEAD][4 - rank :]
                short = [1, HEADS, new, HEAD][4 - rank :]
                with b.op("aten::cat", shapes=[[old, short], []], us=0 if device else us):
                    if device:
                        b.kernel("CatArrayBatchedCopy_aligned16_contig", us=us)
                if reordered:
                    with b.op(reordered, shapes=[[1, HEADS, text + grows * number + new, HEAD], [1]], us=us):
                        pass
            if backward:
                with b.backward("CatBackward0", seq=number):
                    pass
            if device:
                b.sync()
    return b


# Nine of ten iterations, in one window: two copies of 50 us each.
@fires(
    cost_ms=0.9, severity="medium", occurrences=18, fix="Allocate the cache once, and write new keys and values into it"
)
def a_loop_of_the_user_s_own() -> TraceBuilder:
    return generating()


# Beam search puts the sequences of the cache into another order with each token: it is written in whole as well.
@quiet
def sequences_in_another_order_each_time() -> TraceBuilder:
    return generating(reordered="aten::index_select")


@fires(cost_ms=0.9, fix='Use a cache of fixed length (cache_implementation="static")')
def a_dynamic_cache_of_transformers() -> TraceBuilder:
    return generating(transformers=True)


@fires(cost_ms=0.9, occurrences=18)
def the_same_on_a_cpu() -> TraceBuilder:
    return generating(None)


@quiet
def a_cache_that_does_not_grow() -> TraceBuilder:
    return generating(grows=0)


@quiet
def what_grows_by_more_than_is_put_behind_it() -> TraceBuilder:
    return generating(grows=16)


@quiet
def numbers_of_tokens_that_are_put_behind_each_other() -> TraceBuilder:
    return generating(rank=2)


@quiet("not_applicable")
def training() -> TraceBuilder:
    return generating(backward=True)


@edge
def five_tokens(over: bool) -> TraceBuilder:
    return generating(tokens=5 if over else 4)


# Of nine tenths of the copies 70 % return.
@edge
def one_percent_of_the_time(over: bool) -> TraceBuilder:
    return generating(us=7.4 if over else 7)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return generating(shapes=False)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    b = TraceBuilder(A100)
    b.kernel("CatArrayBatchedCopy_aligned16_contig", us=50, launched=False)
    return b


@lacks("shapes")
def an_operator_without_shapes() -> TraceBuilder:
    return host_alone("aten::cat")
