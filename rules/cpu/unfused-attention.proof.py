"""Proof of cpu/unfused-attention: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

BATCH, HEADS, DEPTH = 4, 8, 64


class Model(TraceBuilder):
    """A program on the CPU, or on a GPU where the operators launch kernels."""

    def __init__(self, device: str | None = None, *, record_shapes: bool = True) -> None:
        super().__init__(device, host_us=0, record_shapes=record_shapes)
        self.gpu = device is not None

    def run(
        self,
        name: str,
        us: float,
        shapes: list[list[int]],
        seq: int | None = None,
        dtype: str = "float",
        late: bool = False,
    ) -> None:
        """Add an operator of so many us; *late*: in the backward pass."""
        with (
            self.backward(name, seq or 0, shapes=shapes)
            if late
            else self.op(name, shapes=shapes, dtypes=[dtype] * len(shapes), seq=seq, us=us)
        ):
            if late:
                with self.op("aten::_softmax_backward_data", shapes=shapes, us=us):
                    pass
            if self.gpu:
                self.kernel("volta_sgemm_128x64_nn", us=us)


def attend(
    length: int = 512,
    *,
    take: int | None = None,
    dropout: bool = False,
    bias: bool = False,
    fused: bool = False,
    mask_of_keys: bool = False,
    mask: bool = False,
    dtype: str = "float",
    train: bool = True,
    us: float = 1000,
    device: str | None = None,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of 20 ms: two products of *us* us each, as much between them, and in the backward pass twice that."""
    b = Model(device, record_shapes=shapes)
    scores = [BATCH, HEADS, length, length]
    flat, q, k = [BATCH * HEADS, length, length], [BATCH * HEADS, length, DEPTH], [BATCH * HEADS, DEPTH, length]
    for step in range(3):
        seq = 100 * step
        with b.step():
            if fused:
                b.run("aten::_scaled_dot_product_flash_attention_for_cpu", us, [q, q, q])
            else:
                if mask_of_keys:
                    b.run("aten::baddbmm", us, [[BATCH * HEADS, 1, length], q, k, [], []], seq + 1)
                else:
                    b.run("aten::bmm", us, [q, k], seq + 1)
                b.run("aten::mul", us / 4, [scores, []], seq + 2, dtype)
                if bias:
                    b.run("aten::add", us / 4, [scores, [1, HEADS, length, length], []], seq + 3)
                if mask:
                    b.run("aten::masked_fill", us / 4, [scores, [length, length], []], seq + 6, dtype)
                b.run("aten::_softmax", us / 2, [scores, [], []], seq + 4, dtype)
                if dropout:
                    b.run("aten::bernoulli_", us / 4, [scores, [], []])
                b.run("aten::bmm", us, [[BATCH * HEADS, take or length, length], q], seq + 5)
            b.run("aten::addmm", 20_000 - 7.5 * us, [[512], [BATCH * length, 512], [512, 512], [], []])
            if train and not fused:
                b.run("BmmBackward0", 2 * us, [flat], seq + 5, late=True)
                b.run("SoftmaxBackward0", us, [scores], seq + 4, late=True)
                if bias:
                    with b.backward("AddBackward0", seq + 3), b.op("aten::sum", shapes=[scores, [], []], us=us):
                        pass
                b.run("MulBackward0", us / 2, [scores], seq + 2, late=True)
                b.run("BmmBackward0", 2 * us, [flat], seq + 1, late=True)
    return b


# 8.4 MB, on which a mask is filled in: between the products 1 ms forward and 1.5 backward; the products 2 and 4.
@fires(cost_ms=8.5, occurrences=3, severity="high")
def causal_attention_on_small_scores() -> TraceBuilder:
    return attend(256, mask=True)


@quiet
def small_scores_without_a_mask() -> TraceBuilder:
    return attend(256)


# 8.4 MB in 32 times as many heads.
@quiet
def a_mask_on_short_sequences() -> TraceBuilder:
    return attend(128, mask=True)


# Between the products 0.75 ms forward and 1.5 backward; the products 2 and 4: 8.25 ms of 20.75. The scores take 32 MB, so that
# 0.65 · (2.25 + 0.2 · 6) to 2.25 + 0.65 · 6 ms return: 11 to 30 % of the step.
@fires(cost_ms=8.25, occurrences=3, severity="high", op="aten::_softmax")
def attention_in_steps_forward_and_backward() -> TraceBuilder:
    return attend()


@fires(cost_ms=2.75, occurrences=3)
def inference_has_the_forward_alone() -> TraceBuilder:
    return attend(train=False)


# MultiheadAttention adds a mask of the keys in the product: it has one row for all queries.
@fires(cost_ms=8.25, occurrences=3)
def the_mask_is_added_in_the_product() -> TraceBuilder:
    return attend(mask_of_keys=True)


@quiet
def the_fused_operator() -> TraceBuilder:
    return attend(fused=True)


# 4 · 8 · 256² · 4 bytes are 8 MB.
@quiet
def small_scores() -> TraceBuilder:
    return attend(256)


# In 16 bits they are half as large.
@quiet
def the_scores_in_bfloat16() -> TraceBuilder:
    return attend(384, dtype="c10::BFloat16")


# scaled_dot_product_attention does the same in steps.
@quiet
def dropout_of_the_weights() -> TraceBuilder:
    return attend(dropout=True)


@quiet
def a_learned_bias_on_the_scores() -> TraceBuilder:
    return attend(bias=True)


@fires(cost_ms=3.0)
def a_bias_without_a_gradient() -> TraceBuilder:
    return attend(bias=True, train=False)


@quiet
def the_second_product_takes_something_else() -> TraceBuilder:
    return attend(take=256)


@quiet
def attention_that_takes_little_of_the_step() -> TraceBuilder:
    return attend(us=40)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return attend(device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return attend(shapes=False)


# 4 · 8 · 354² · 4 bytes are 16.04 million, and with 353 15.95.
@edge
def scores_of_16_MB(over: bool) -> TraceBuilder:
    return attend(354 if over else 353)
