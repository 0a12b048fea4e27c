"""Proof of inference/weight-norm: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

WEIGHT = [64, 64, 3]


def vocoder(us: float, *, layers: int = 4, name: str = "aten::_weight_norm", train: bool = False) -> TraceBuilder:
    """Steps of 10 ms on a GPU: a weight for each convolution, of *us* each."""
    b = TraceBuilder()
    for _ in range(3):
        with b.step():
            for seq in range(layers):
                with b.op(name, shapes=[WEIGHT, [64, 1, 1], []], seq=seq if train else None):
                    b.kernel("void at::native::weight_norm_fwd_first_dim_kernel<float, float>", us=us)
                with b.op("aten::conv1d", shapes=[[1, 64, 512], WEIGHT, [64]], seq=seq if train else None):
                    b.kernel("implicit_convolve_sgemm", us=10_000 / layers - us)
            if train:
                with b.backward("ConvolutionBackward0", seq=0):
                    b.kernel("wgrad_alg0_engine", us=10)
    return b


def generator(us: float, *, divided: str = "aten::div") -> TraceBuilder:
    """Steps of 10 ms on the CPU: two layers under spectral norm, *us* of each are its own."""
    matrix = [64, 192]
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step():
            for _ in range(2):
                with b.op("aten::mv", shapes=[matrix, [192]], us=us / 2):
                    pass
                with b.op("aten::vdot", shapes=[[64], [64]], us=us / 4):
                    pass
                with b.op(divided, shapes=[WEIGHT, []], us=us / 4):
                    pass
                with b.op("aten::linear", shapes=[[8, 192], matrix, [64]], us=5_000 - us), b.op("aten::t"):
                    pass  # as a whole it would be one of an accelerator
    return b


# Four weights of 200 us in a step of 10 ms.
@fires(cost_ms=0.8, cost_share=0.08, severity="medium", fix="Fold the norm into the weights once, after loading")
def weights_are_normalized_in_each_step() -> TraceBuilder:
    return vocoder(200)


# Two layers of 1 ms each in 10 ms.
@fires(cost_ms=2.0, cost_share=0.2, severity="high", occurrences=6)
def a_spectral_norm_on_the_cpu() -> TraceBuilder:
    return generator(1_000)


@quiet("not_applicable")
def in_training_the_weights_change() -> TraceBuilder:
    return vocoder(200, train=True)


@quiet
def something_else_before_a_convolution() -> TraceBuilder:
    return vocoder(200, name="aten::leaky_relu")


@quiet
def a_matrix_that_is_multiplied_by_a_number() -> TraceBuilder:
    return generator(1_000, divided="aten::mul")


@edge
def two_per_cent_of_the_step(over: bool) -> TraceBuilder:
    return vocoder(65 if over else 45)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("void at::native::weight_norm_fwd_first_dim_kernel<float, float>")
