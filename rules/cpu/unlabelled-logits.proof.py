"""Proof of cpu/unlabelled-logits: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet

POSITIONS, CLASSES, HIDDEN = 4096, 8000, 128


def training(
    us: float = 3000,
    *,
    classes: int = CLASSES,
    loss: str = "aten::nll_loss_forward",
    rest_us: float = 5000,
    device: str | None = None,
    **recorded: Any,
) -> TraceBuilder:
    """Steps of a model of 5 ms, its logits forward and backward, and the loss."""
    b = TraceBuilder(device, host_us=0).ran_with(**({"ignored_share": 0.85} | recorded))
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", shapes=[[POSITIONS, HIDDEN]], us=rest_us):
                pass
            with b.op("aten::addmm", shapes=[[classes], [POSITIONS, HIDDEN], [HIDDEN, classes]], us=us / 3):
                if device:
                    b.kernel("volta_sgemm_128x64_nn", us=100)
            with b.op(loss, shapes=[[POSITIONS, classes], [POSITIONS]], us=100):
                pass
            with b.op("aten::mm", shapes=[[classes, POSITIONS], [POSITIONS, HIDDEN]], us=us * 2 / 3):
                pass
            # The layer's gradient goes to its weight: classes, but no positions.
            with b.op("aten::add_", shapes=[[classes, HIDDEN], [classes, HIDDEN]], us=100):
                pass
    return b


@fires(cost_ms=3.1, cost_share=0.378, occurrences=9, severity="high")  # 3.1 of 8.2 ms, 85 % of it
def a_masked_language_model() -> TraceBuilder:
    return training()


@quiet
def labels_for_all_positions() -> TraceBuilder:
    return training(ignored_share=0.1)


@quiet
def labels_that_were_not_recorded() -> TraceBuilder:
    return training(ignored_share=None)


@quiet
def few_classes() -> TraceBuilder:
    return training(classes=20)


@quiet
def a_loss_of_another_kind() -> TraceBuilder:
    return training(loss="aten::mse_loss")


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return training(device="Tesla V100-SXM2-16GB")


@edge
def three_tenths_of_the_labels(over: bool) -> TraceBuilder:
    return training(ignored_share=0.3 if over else 0.299)


@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    """Of 10 ms 0.59 for logits, at 1.15 times 75 % and 90 % of that 4.58 %; 0.58 make 4.50 %."""
    return training(490 if over else 480, rest_us=9_310 if over else 9_320)


@edge
def two_hundred_and_fifty_six_classes(over: bool) -> TraceBuilder:
    return training(classes=256 if over else 255)
