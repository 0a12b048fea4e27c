"""Proof of inference/unmerged-adapter: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x32x8_stage3"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float>>(int)"
X, Y, H = [4, 64, 256], [4, 64, 512], [4, 64, 8]


def layer(
    us: float, *, bends: bool = False, gates: bool = False, beside: bool = True
) -> list[tuple[str, float, list[Any]]]:
    """A layer of 1 ms, *us* of it the adapter's: a fifth of them each thin product, the scale, the sum and a dropout."""
    base = [("aten::linear", 1_000 - us, [X, [512, 256], []])] if beside else []
    return [
        *base,
        ("aten::dropout", us / 5, [X, [], []]),
        ("aten::linear", us / 5, [X, [8, 256], []]),
        *([("aten::relu", 1.0, [H])] if bends else []),
        ("aten::linear", us / 5, [H, [512, 8], []]),
        ("aten::mul", us / 5, [Y, []]),
        ("aten::mul" if gates else "aten::add", us / 5, [Y, Y, []]),
    ]


def model(us: float, *, layers: int = 4, train: bool = False, cpu: bool = False, **options: bool) -> TraceBuilder:
    b = TraceBuilder(None, host_us=0) if cpu else TraceBuilder()
    for _ in range(3):
        with b.step():
            for seq in range(layers):
                for name, taken, shapes in layer(us, **options):
                    with b.op(name, shapes=shapes, us=taken if cpu else 0, seq=seq if train else None):
                        if not cpu:
                            b.kernel(GEMM if name == "aten::linear" else POINTWISE, us=taken)
                        elif name == "aten::linear":
                            with b.op("aten::t"):
                                pass  # as a whole it would be one of an accelerator
                with b.op("aten::gelu", shapes=[Y], us=1):
                    if not cpu:
                        b.kernel(POINTWISE, us=1)
            if train:
                with b.backward("AddmmBackward0", seq=0):
                    b.kernel(GEMM, us=10)
    return b


# Four layers, of 1 ms each, 400 us of it the adapter's.
@fires(
    cost_ms=1.6, severity="high", occurrences=12, fix="Merge the adapter into the model's weights once, after loading"
)
def an_adapter_beside_each_layer() -> TraceBuilder:
    return model(400)


@fires(cost_ms=1.6, severity="high", occurrences=12)
def the_same_on_the_cpu() -> TraceBuilder:
    return model(400, cpu=True)


@quiet("not_applicable")
def in_training_the_adapter_learns() -> TraceBuilder:
    return model(400, train=True)


@quiet
def a_bottleneck_with_an_activation() -> TraceBuilder:
    return model(400, bends=True)


@quiet
def a_gate_of_low_rank() -> TraceBuilder:
    return model(400, gates=True)


@quiet
def low_rank_factors_with_no_layer_beside() -> TraceBuilder:
    return model(400, beside=False)


@edge
def two_layers_in_a_step(over: bool) -> TraceBuilder:
    return model(400, layers=2 if over else 1)


@edge
def two_per_cent_of_the_step(over: bool) -> TraceBuilder:
    return model(30 if over else 15, cpu=True)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(GEMM)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return launches_alone("aten::linear")
