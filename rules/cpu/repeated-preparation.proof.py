"""Proof of cpu/repeated-preparation: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet


def graph(
    name: str = "aten::unique_dim",
    inside: int = 100,
    us: float = 20,
    *,
    rest_us: float = 4000,
    steps: int = 3,
    every: int = 1,
    device: str | None = None,
    training: bool = True,
    differentiated: bool = False,
    loader: bool = False,
    grows: int | None = None,
) -> TraceBuilder:
    """Steps of one product, forward and backward, and of an operator with others inside it."""
    b = TraceBuilder(device, host_us=0)
    for step in range(steps):
        with b.step():
            if loader:
                with b.loader(us=10):
                    pass
            if step % every == 0:
                args = None if grows is None else {"Input Dims": [[4096 + grows * step]]}
                numbered = 2 * step if differentiated else None
                with b.python("model.py(52): normalized"), b.op(name, seq=numbered, args=args):
                    for _ in range(inside):
                        with b.op("aten::equal", us=us):
                            pass
            with b.op("aten::addmm", seq=2 * step + 1, us=rest_us / 2):
                pass
            if training:
                with b.thread(4001), b.backward("AddmmBackward0", seq=2 * step + 1, us=rest_us / 2):
                    pass
                if differentiated and step % every == 0:
                    with b.thread(4001), b.backward("LinalgInvExBackward0", seq=2 * step):
                        pass
    return b


# 100 operators of 20 us inside one: 2 of 6 ms in each of three steps, and the operator's own row.
@fires(cost_ms=2.0, occurrences=303, severity="high")
def duplicate_edges_are_removed_in_each_step() -> TraceBuilder:
    return graph()


@fires(cost_ms=2.0, severity="high")
def a_matrix_is_inverted_in_each_step() -> TraceBuilder:
    return graph("aten::linalg_inv_ex")


@quiet
def a_norm_prepares_nothing() -> TraceBuilder:
    return graph("aten::linalg_vector_norm")


# Its input depends on parameters: no step may take it from another.
@quiet
def an_inverse_that_is_learned_through() -> TraceBuilder:
    return graph("aten::linalg_inv_ex", differentiated=True)


@fires(cost_ms=2.0, severity="high")
def of_one_size_in_each_step() -> TraceBuilder:
    return graph(grows=0)


# A metric over all that was seen so far: nothing of it is there already.
@quiet
def a_history_that_grows() -> TraceBuilder:
    return graph(grows=4096)


@quiet("not_applicable")
def batches_of_a_loader() -> TraceBuilder:
    return graph(loader=True)


# Sampling sorts what the model has just computed.
@quiet("not_applicable")
def inference() -> TraceBuilder:
    return graph("aten::sort", training=False)


@quiet
def an_operator_of_the_model() -> TraceBuilder:
    return graph("aten::index_select")


@quiet
def once_before_the_steps_that_follow() -> TraceBuilder:
    return graph(steps=4, every=4)


@quiet
def beside_a_step_of_much_more_work() -> TraceBuilder:
    return graph(rest_us=100_000)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = graph(device="NVIDIA A100-SXM4-80GB")
    with b.step():
        b.kernel("ampere_sgemm_128x64_nn", us=1000)
    return b


# The middle of what the fix returns, three quarters of 5 % of the step.
@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return graph(us=2.15 if over else 2.05)
