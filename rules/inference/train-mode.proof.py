"""Proof of inference/train-mode: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def on_gpu(
    layers: int = 4, *, drops: bool = True, us: float = 50, backward: bool = False, world_size: int = 1
) -> TraceBuilder:
    """Forward passes of 10 ms on a GPU, with dropout behind each of some products: it draws (*drops*), or hands its input on."""
    b = TraceBuilder(rank=0 if world_size > 1 else None, world_size=world_size)
    for _ in range(3):
        with b.step():
            for seq in range(layers):
                with b.op("aten::linear", seq=seq), b.op("aten::addmm"):
                    b.kernel("volta_sgemm_128x64_nn", us=10_000 / layers - us * drops)
                with b.op("aten::dropout"):
                    if drops:
                        with b.op("aten::native_dropout"):
                            with b.op("aten::empty_like"):
                                pass
                            b.kernel("fused_dropout_kernel_vec", us=us)
            if backward:
                with b.backward("AddmmBackward0", seq=0):
                    b.kernel("volta_sgemm_128x64_nt", us=10)
    return b


def on_cpu(us: float, *, drops: bool = True) -> TraceBuilder:
    """Forward passes of 10 ms on the CPU, of which two dropouts take *us*, as a torch of 2021 computes them."""
    b = TraceBuilder(None, dialect="2021")
    for _ in range(3):
        with b.step():
            for _ in range(2):
                with b.op("aten::mkldnn_linear", us=5_000 - us / 2):
                    pass
                with b.op("aten::dropout", us=us / 2):
                    if drops:
                        with b.op("aten::bernoulli_", us=us / 4):
                            pass
                        with b.op("aten::div_", us=us / 8):
                            pass
    return b


# Four dropouts of 50 us a step of 10 ms.
@fires(cost_ms=0.2, cost_share=0.02, severity="low", fix="Put the model into evaluation mode")
def dropout_draws_in_a_forward_pass() -> TraceBuilder:
    return on_gpu()


# On the CPU two dropouts of 1 ms each, in 10 ms: random numbers, division, and what the operator does itself.
@fires(cost_ms=2.0, cost_share=0.2, severity="high", occurrences=6)
def dropout_on_the_cpu() -> TraceBuilder:
    return on_cpu(2_000)


# The statistics take 100 us of each of two batch norms; what normalizes is needed in evaluation too.
@fires(cost_ms=0.2, cost_share=0.02)
def batch_norms_take_statistics() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(3):
        with b.step():
            for _ in range(2):
                with b.op("aten::conv2d"):
                    b.kernel("volta_scudnn_128x64_relu_interior_nn_v1", us=4_800)
                with b.op("aten::batch_norm"), b.op("aten::_batch_norm_impl_index"), b.op("aten::native_batch_norm"):
                    b.kernel("batch_norm_collect_statistics_kernel", us=100)
                    b.kernel("batch_norm_transform_input_kernel", us=100)
    return b


def with_rates(first: str) -> TraceBuilder:
    """A forward pass of a GPU that was not recorded: a dropout of 10 %, in training or not, and three of 0 % that say they are."""
    b = TraceBuilder()
    with b.op("aten::linear"):
        b.call("cudaLaunchKernel", 10)
    for train, rate in ((first, "0.1"), *(("True", "0."),) * 3):
        values = ["", rate, train]
        with b.op("aten::dropout", shapes=[[64, 512], [], []], values=values):
            if rate == "0.1" and train == "True":
                with b.op("aten::native_dropout", shapes=[[64, 512], [], []], values=values):
                    with b.op("aten::empty_like"):
                        pass
                    b.call("cudaLaunchKernel", 10)
    return b


# One draws; with a rate of 0 nothing is drawn, but the recorded argument says that these are in training too: no model in
# evaluation has one functional dropout.
@fires(cost_ms=0, occurrences=1, severity="note")
def rates_of_0_beside_one_that_draws() -> TraceBuilder:
    return with_rates("True")


# Code that sets the rate to 0 in evaluation leaves the argument as it is.
@quiet
def rates_of_0_alone() -> TraceBuilder:
    return with_rates("False")


@quiet
def the_same_model_in_evaluation_mode() -> TraceBuilder:
    return on_gpu(drops=False)


@quiet
def evaluation_mode_on_the_cpu() -> TraceBuilder:
    return on_cpu(200, drops=False)


@quiet("not_applicable")
def training() -> TraceBuilder:
    return on_gpu(backward=True)


# The backward pass may lie outside the recording.
@quiet("not_applicable")
def one_of_several_ranks() -> TraceBuilder:
    return on_gpu(world_size=8)


# Instance norms compute on the statistics of what they are given in evaluation too.
@quiet
def instance_norms() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(3):
        with b.step():
            with b.op("aten::conv2d"):
                b.kernel("volta_scudnn_128x64_relu_interior_nn_v1", us=9_000)
            with b.op("aten::instance_norm"), b.op("aten::batch_norm"), b.op("aten::native_batch_norm"):
                b.kernel("batch_norm_collect_statistics_kernel", us=100)
    return b


@edge
def one_dropout_in_all(over: bool) -> TraceBuilder:
    b = TraceBuilder()
    for seq in range(2):
        with b.op("aten::linear", seq=seq):
            b.kernel("volta_sgemm_128x64_nn", us=1_000)
        if over or seq:
            with b.op("aten::dropout"), b.op("aten::native_dropout"), b.op("aten::empty_like"):
                b.kernel("fused_dropout_kernel_vec", us=50)
    return b


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
