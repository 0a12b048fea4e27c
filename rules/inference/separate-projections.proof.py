"""Proof of inference/separate-projections: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<c10::BFloat16>>(int)"
WIDTH, ROWS = 1024, 128
Call = tuple[str, float, list[Any]]


def linear(columns: int, us: float = 30, rows: int = ROWS, width: int = WIDTH) -> Call:
    return "aten::linear", us, [[1, rows, width], [columns, width], [columns]]


def elements(name: str, width: int, *, operands: int = 1, rows: int = ROWS, us: float = 2) -> Call:
    return f"aten::{name}", us, [[1, rows, width]] * operands


def attention(rows: int = ROWS, keys: int = ROWS) -> Call:
    queries, others = [1, 16, rows, 64], [1, 16, keys, 64]
    return "aten::scaled_dot_product_attention", 40, [queries, others, others, [], [], []]


NORM = ("aten::layer_norm", 2, [[1, ROWS, WIDTH], [], [WIDTH], [WIDTH], [], []])
SUM = elements("add", WIDTH, operands=2)
VIEW = ("aten::view", 0, [[1, ROWS, WIDTH], []])
QUERY, OUT = linear(WIDTH), linear(WIDTH)
ATTENTION = [NORM, QUERY, VIEW, linear(WIDTH), VIEW, linear(WIDTH), VIEW, attention(), OUT, SUM]
GATED = [
    NORM,
    linear(2816),
    elements("silu", 2816),
    linear(2816),
    elements("mul", 2816, operands=2),
    linear(1024, width=2816),
    SUM,
]


def model(
    calls: list[Call],
    *,
    layers: int = 4,
    other_us: float = 0,
    train: bool = False,
    host_us: float = 1,
    module: str = "SelfAttention",
    device: str | None = "NVIDIA H100 80GB HBM3",
) -> TraceBuilder:
    b = TraceBuilder(device, host_us=host_us, latency_us=0)
    for _ in range(3):
        with b.step():
            for layer in range(layers):
                with b.module(f"{module}_{layer}"):
                    for name, us, shapes in calls:
                        types = ["c10::BFloat16" if shape else "" for shape in shapes]
                        with b.op(name, shapes=shapes, dtypes=types, us=0 if us else 1, seq=layer if train else None):
                            if us and device:
                                kernel = (
                                    FLASH
                                    if "attention" in name
                                    else GEMM
                                    if name in ("aten::linear", "aten::mm")
                                    else POINTWISE
                                )
                                b.kernel(kernel, us=us)
            if other_us:
                with b.op("aten::gelu", shapes=[[1 << 20]]):
                    b.kernel(POINTWISE, us=other_us)
            if train:
                with b.backward("AddmmBackward0", seq=0):
                    b.kernel(GEMM, us=10)
            b.sync()
    return b


# Of four layers two products of 30 us each go: eight tiles of 132 multiprocessors each.
@fires(
    cost_ms=0.24,
    severity="high",
    occurrences=12,
    op="aten::linear",
    fix="One Linear for queries, keys and values, its weights joined once after loading",
)
def queries_keys_and_values() -> TraceBuilder:
    return model(ATTENTION)


@fires(cost_ms=0.12, fix="One Linear for the gate and what it gates, its weights joined once after loading")
def a_gate_and_what_it_gates() -> TraceBuilder:
    return model(GATED)


# Fewer heads of keys and values than of queries.
@fires(cost_ms=0.24)
def grouped_queries() -> TraceBuilder:
    return model([NORM, QUERY, linear(256), linear(256), attention(), OUT, SUM])


# The GPU waits for the host, which takes 60 us for each launch of 5 us, and 1 us for a view: four times a step two waits of 56 us,
# each from the end of the product before, and two products.
@fires(cost_ms=0.488)
def a_host_that_sets_the_pace() -> TraceBuilder:
    calls = [(name, min(us, 5), shapes) for name, us, shapes in ATTENTION]
    return model(calls, host_us=60)


# Keys and values are of another input, as many rows as queries have.
@fires(cost_ms=0.12)
def attention_to_another_input_joins_keys_and_values() -> TraceBuilder:
    return model(ATTENTION, module="CrossAttention")


@fires(cost_ms=0.12)
def keys_and_values_of_more_rows() -> TraceBuilder:
    others = [linear(WIDTH, rows=77), linear(WIDTH, rows=77)]
    return model([NORM, QUERY, *others, attention(keys=77), OUT, SUM])


# 32,768 rows of 1,024 columns are 2,048 tiles each.
@quiet
def products_that_fill_the_gpu() -> TraceBuilder:
    rows = 32_768
    products = [linear(WIDTH, us=120, rows=rows)] * 3
    return model(
        [
            *products,
            ("aten::scaled_dot_product_attention", 400, [[8, 16, 4096, 64]] * 3),
            elements("add", WIDTH, operands=2, rows=rows),
        ]
    )


@quiet("not_applicable")
def training() -> TraceBuilder:
    return model(ATTENTION, train=True)


@quiet
def one_product_for_all() -> TraceBuilder:
    return model([NORM, linear(3 * WIDTH), attention(), OUT, SUM])


# A layer behind attention's own: x = fc(proj(attended)) + x.
@quiet
def layers_that_follow_each_other() -> TraceBuilder:
    return model([NORM, linear(3 * WIDTH), attention(), OUT, linear(WIDTH), SUM])


@quiet
def a_perceptron() -> TraceBuilder:
    return model(
        [NORM, linear(WIDTH), elements("relu", WIDTH), linear(WIDTH), elements("relu", WIDTH), linear(WIDTH), SUM]
    )


# gelu(a(x)) is halved by a view and gated by itself, and what that gives is as wide as x.
@quiet
def a_gate_of_one_product_and_another_layer() -> TraceBuilder:
    return model(
        [
            NORM,
            linear(2 * WIDTH),
            elements("mul", WIDTH, operands=2),
            linear(2 * WIDTH),
            elements("mul", WIDTH, operands=2),
            SUM,
        ]
    )


# nn.MultiheadAttention with three inputs divides its weight, and runs the parts.
@quiet
def parts_of_one_weight() -> TraceBuilder:
    chunk = ("aten::chunk", 0, [[3 * WIDTH, WIDTH], [], []])
    return model([NORM, chunk, *ATTENTION[1:]])


@quiet("not_run")
def a_program_without_a_gpu() -> TraceBuilder:
    return model(ATTENTION, device=None)


@edge
def two_layers_in_a_step(over: bool) -> TraceBuilder:
    return model(ATTENTION, layers=2 if over else 1)


# Of four layers 240 us go at most, 120 at least: 180 in the middle.
@edge
def two_per_cent_of_the_step(over: bool) -> TraceBuilder:
    return model(ATTENTION, other_us=7_000 if over else 9_500)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(GEMM)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return launches_alone("aten::linear")
