"""Proof of sync/debug-api: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def training(checked: int = 8, nodes: int = 8, *, device: str | None = "NVIDIA A100-PCIE-40GB") -> TraceBuilder:
    """Steps whose backward has so many nodes; the first *checked* of them as anomaly mode runs them."""
    b = TraceBuilder(device)
    for _ in range(2):
        with b.step():
            for node in range(nodes):
                engine = f"autograd::engine::evaluate_function: MulBackward{node}"
                with b.op(engine, seq=node, fwd_thread=1):
                    with b.op(f"MulBackward{node}", seq=node, fwd_thread=1), b.op("aten::mul"):
                        b.idle(5)
                        if device:
                            b.kernel("vectorized_elementwise_kernel", us=10)
                    if node < checked:
                        with b.op("aten::isnan"), b.op("aten::ne"):
                            b.idle(2)
                        with b.op("aten::_is_any_true"), b.op("aten::any"):
                            b.idle(2)
                        if device:
                            b.item(dtype="bool")
    return b


# Two steps of eight nodes, each with a test of six operators: isnan, ne, _is_any_true, any, item, _local_scalar_dense.
@fires(severity="medium", occurrences=2 * 8 * 6)
def every_gradient_tested() -> TraceBuilder:
    return training()


@fires(severity="high", occurrences=2 * 8 * 4)
def the_same_on_a_machine_without_a_gpu() -> TraceBuilder:
    return training(device=None)


@quiet
def the_same_training_untested() -> TraceBuilder:
    return training(0)


@quiet
def a_test_for_nan_in_the_forward_pass() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    with b.step():
        for _ in range(10):
            with b.op("aten::isnan"), b.op("aten::ne"):
                b.kernel("vectorized_elementwise_kernel", us=10)
    return b


# Two steps of eight nodes: eight checks are half of them, six are not.
@edge
def half_of_the_nodes(over: bool) -> TraceBuilder:
    return training(4 if over else 3)


# Two steps of two or three nodes, all tested.
@edge
def five_checks(over: bool) -> TraceBuilder:
    return training(3, 3) if over else training(2, 2)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("vectorized_elementwise_kernel", device="NVIDIA A100-PCIE-40GB")
