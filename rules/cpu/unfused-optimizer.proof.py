"""Proof of cpu/unfused-optimizer: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Optimizer
from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet


def training(
    parameters: int = 10,
    *,
    optimizer: str = "Adam",
    name: str = "aten::addcdiv_",
    us: float = 25,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 9 ms forward and backward, and an optimizer with four operators a parameter; no Python between."""
    b = TraceBuilder(device)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=9000):
                pass
            with b.annotation(f"Optimizer.step#{optimizer}.step"):
                for _ in range(4 * parameters):
                    with b.op(name, us=us):
                        pass
    return b


@fires(cost_ms=1.0, cost_share=0.1, occurrences=120, severity="medium")  # 40 operators of 25 us in 10 ms, three times
def forty_operators_a_step() -> TraceBuilder:
    return training()


@fires(cost_ms=3.0, severity="high")  # 120 operators of 25 us in 12 ms: 25 %
def a_quarter_of_the_step() -> TraceBuilder:
    return training(30, optimizer="AdamW")


# Seven passes of 3 ms over an embedding, and fourteen operators of 5 us on two small parameters, beside 9 ms.
@fires(cost_ms=21.07, occurrences=63, severity="high")
def one_large_embedding_and_two_small_parameters() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=9000):
                pass
            with b.annotation("Optimizer.step#Adam.step"):
                for us in (3000, 5, 5):
                    for _ in range(7):
                        with b.op("aten::mul_", us=us):
                            pass
    return b


@quiet
def a_fused_step() -> TraceBuilder:
    return training(name="aten::_fused_adam_")


@quiet
def forward_and_backward_outweigh_it() -> TraceBuilder:
    return training(us=5)


@quiet("not_applicable")
def an_optimizer_that_has_no_fused_form() -> TraceBuilder:
    return training(optimizer="LBFGS")


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = training(device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@edge
def twenty_operators_a_step(over: bool) -> TraceBuilder:
    b = TraceBuilder(None)
    for step in range(2):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=1000):
                pass
            with b.annotation("Optimizer.step#SGD.step"):
                for _ in range(20 if over or step else 19):
                    with b.op("aten::add_", us=50):
                        pass
    return b


@fires(cost_ms=1.0, setting="Adam(fused=None) at train.py:50 → True")
def an_optimizer_left_to_itself() -> TraceBuilder:
    return training().ran_with(optimizers=[Optimizer("Adam", file="train.py", line=50)])


@quiet
def an_optimizer_known_to_be_fused() -> TraceBuilder:
    return training().ran_with(optimizers=[Optimizer("Adam", fused=True)])


def two_optimizers(us: float) -> TraceBuilder:
    """Steps of 9 ms, SparseAdam's of 3 ms on sparse gradients, and Adam's of 40 operators."""
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=9000):
                pass
            with b.annotation("Optimizer.step#SparseAdam.step"):
                for _ in range(30):
                    with b.op("aten::coalesce", us=50):
                        pass
                    with b.op("aten::add_", us=50):
                        pass
            with b.annotation("Optimizer.step#Adam.step"):
                for _ in range(40):
                    with b.op("aten::addcdiv_", us=us):
                        pass
    return b.ran_with(
        optimizers=[Optimizer("SparseAdam", file="train.py", line=50), Optimizer("Adam", file="train.py", line=51)]
    )


@quiet
def most_of_it_is_an_optimizer_without_a_fused_form() -> TraceBuilder:
    return two_optimizers(us=5)


@fires(cost_ms=2.0, occurrences=120, setting="Adam(fused=None) at train.py:51 → True")
def beside_an_optimizer_without_a_fused_form() -> TraceBuilder:
    return two_optimizers(us=50)


@quiet
def a_step_on_sparse_gradients() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=9000):
                pass
            with b.annotation("Optimizer.step#SGD.step"):
                for _ in range(40):
                    with b.op("aten::add_", us=50), b.op("aten::_nnz", us=1):
                        pass
    return b


@fires(cost_ms=1.0, occurrences=120)
def beside_one_that_is_fused() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=7000):
                pass
            with b.annotation("Optimizer.step#AdamW.step"):
                for _ in range(40):
                    with b.op("aten::zeros_like", us=25):
                        pass
                with b.op("aten::_fused_adamw_", us=1000):
                    pass
            with b.annotation("Optimizer.step#SGD.step"):
                for _ in range(40):
                    with b.op("aten::add_", us=25):
                        pass
    return b
