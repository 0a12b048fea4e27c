"""Proof of sync/scaler-readback: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

LOOKS = "aten::_amp_foreach_non_finite_check_and_unscale_"


def training(
    *,
    launch_ms: float = 1.0,
    looks: bool = True,
    steps: bool = True,
    every: int = 1,
    logs: bool = False,
    us: int = 8000,
) -> TraceBuilder:
    """Four steps: a backward pass of 8 ms, the check, a read, an optimizer that takes a ms to launch and one to run."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(4):
        with b.step(), b.python("train.py(61): train"):
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=us)
            if number % every:
                b.sync()
                continue
            if looks:
                with b.op(LOOKS):
                    b.kernel("multi_tensor_apply_kernel<unscale>", us=0)
            b.item()
            with b.annotation("Optimizer.step#SGD.step" if steps else "update"):
                with b.op("aten::_foreach_add_", us=1000 * launch_ms):
                    pass
                b.kernel("multi_tensor_apply_kernel<add>", us=1000)
            b.sync()
            if logs:
                b.item()
                b.idle(us=1000)
    return b


# 1 of 10 ms: the GPU has run dry behind the read.
@fires(cost_ms=1.0, occurrences=4, severity="medium", fix="Ask for SGD's fused form, which takes the flag on the GPU")
def a_flag_in_every_step() -> TraceBuilder:
    return training()


# What the program reads itself is sync/scalar-readback's.
@fires(cost_ms=1.0, occurrences=4)
def beside_a_read_of_the_loss() -> TraceBuilder:
    return training(logs=True)


@quiet
def the_optimizer_is_launched_at_once() -> TraceBuilder:
    return training(launch_ms=0)


@quiet("not_applicable")
def no_scaler() -> TraceBuilder:
    return training(looks=False)


@quiet
def no_optimizer_behind_the_read() -> TraceBuilder:
    return training(steps=False)


@edge
def a_read_in_every_second_step(over: bool) -> TraceBuilder:
    return training(every=2 if over else 4)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::item", LOOKS)


@lacks("host", verdict="not_applicable")
def no_host() -> TraceBuilder:
    return kernels_alone("multi_tensor_apply_kernel")
