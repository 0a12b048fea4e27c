"""Proof of kernels/unfused-attention: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float>>(int)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 9, false, false>"
HEADS = 96


def attend(
    b: TraceBuilder,
    seq: int,
    length: int,
    depth: int = 64,
    *,
    take: int | None = None,
    shapes: bool = True,
) -> None:
    """Products of 300 us; scaling 150, mask 150 and softmax 200 us between them, on (length x length) scores."""
    q, k = [HEADS, length, depth], [HEADS, depth, length]
    scores, values = [8, 12, length, length], [HEADS, take or length, length]

    def dims(*operands: list[int]) -> list[list[int]] | None:
        return list(operands) if shapes else None

    with b.op("aten::bmm", shapes=dims(q, k), seq=seq):
        b.kernel(GEMM, us=300)
    with b.op("aten::div", shapes=dims(scores, []), seq=seq + 1):
        b.kernel(POINTWISE, us=150)
    with b.op("aten::add", shapes=dims(scores, [8, 1, 1, length], []), seq=seq + 2):
        b.kernel(POINTWISE, us=150)
    softmax = dims(scores, [], [])
    with b.op("aten::softmax", shapes=softmax, seq=seq + 3), b.op("aten::_softmax", shapes=softmax, seq=seq + 3):
        b.kernel(SOFTMAX, us=200)
    with b.op("aten::bmm", shapes=dims(values, [HEADS, length, depth]), seq=seq + 4):
        b.kernel(GEMM, us=300)


def backward(b: TraceBuilder, seq: int, length: int) -> None:
    """The products' backward takes 600 us each, the softmax's 250 and the scaling's 100; adding costs nothing."""
    scores = [8, 12, length, length]
    for name, number, kernel, us in (
        ("BmmBackward0", seq + 4, GEMM, 600),
        ("SoftmaxBackward0", seq + 3, SOFTMAX, 250),
        ("DivBackward0", seq + 1, POINTWISE, 100),
        ("BmmBackward0", seq, GEMM, 600),
    ):
        with b.backward(name, number, shapes=[scores]):
            b.kernel(kernel, us=us)


def model(length: int = 512, depth: int = 64, *, train: bool = True, **options: object) -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    for step in range(3):
        with b.step():
            seq = 1000 * (step + 1)
            attend(b, seq, length, depth, **options)  # type: ignore[arg-type]
            with b.op("aten::linear", shapes=[[8, length, 768], [3072, 768]], seq=seq + 5):
                b.kernel(GEMM, us=3000)
            if train:
                backward(b, seq, length)
    return b


# Forward 150 + 150 + 200, backward 250 + 100; products 2 * 300 and 2 * 600: 2,650 us of each step.
@fires(cost_ms=2.65, occurrences=3, severity="high", op="aten::_softmax")
def attention_in_steps_forward_and_backward() -> TraceBuilder:
    return model()


@fires(cost_ms=1.1, occurrences=3)
def inference_has_the_forward_alone() -> TraceBuilder:
    return model(train=False)


# Without shapes what is pointwise throughout between two products around a softmax is still attention.
MHA = "Ask nn.MultiheadAttention for no weights (need_weights=False)"


# The user's own code cannot change the products: the layer makes them, as it is asked for weights.
@fires(cost_ms=1.1, occurrences=3, fix=MHA)
def attention_of_torchs_own_layer() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    for step in range(3):
        with (
            b.step(),
            b.python("train.py(20): forward"),
            b.python("torch/nn/modules/activation.py(1043): forward"),
        ):
            attend(b, 1000 * (step + 1), 512)
    return b


@fires(cost_ms=2.65, occurrences=3)
def no_shapes_recorded() -> TraceBuilder:
    return model(shapes=False)


@fires(cost_ms=0.903, occurrences=3)
def a_fused_softmax_between_two_products() -> TraceBuilder:
    """Megatron's kernel does scaling, mask and softmax at once: the scores are written all the same."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    for _ in range(3):
        with b.step():
            with b.op("aten::baddbmm", shapes=[[32, 2048, 2048], [32, 2048, 64], [32, 64, 2048], [], []]):
                b.kernel(GEMM, us=293)
            with b.op("ScaledUpperTriangMaskedSoftmax", shapes=[[32, 2048, 2048]], seq=9):
                b.kernel("void (anonymous namespace)::scaled_upper_triang_masked_softmax_warp_forward<half>", us=426)
            with b.op("aten::bmm", shapes=[[32, 2048, 2048], [32, 2048, 64]]):
                b.kernel(GEMM, us=184)
    return b


@quiet
def the_same_through_scaled_dot_product_attention() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    q = [8, 12, 512, 64]
    for _ in range(3):
        with (
            b.step(),
            b.op("aten::scaled_dot_product_attention", shapes=[q, q, q]),
            b.op("aten::_scaled_dot_product_flash_attention", shapes=[q, q, q]),
        ):
            b.kernel("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128>>", us=250)
    return b


@quiet
def the_math_path_of_scaled_dot_product_attention() -> TraceBuilder:
    """Another rule's: the call is right, and what it is called with is not."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    for step in range(3):
        with b.step(), b.op("aten::_scaled_dot_product_attention_math", shapes=[[8, 12, 512, 64]]):
            attend(b, 1000 * step, 512)
    return b


@quiet
def a_softmax_that_is_not_the_attention_s() -> TraceBuilder:
    """A router's or a loss's softmax between two products that have nothing to do with it."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    for _ in range(3):
        with b.step():
            with b.op("aten::bmm", shapes=[[8, 512, 64], [8, 64, 256]]):
                b.kernel(GEMM, us=300)
            with b.op("aten::_softmax", shapes=[[4096, 4], [], []]):
                b.kernel(SOFTMAX, us=200)
            with b.op("aten::bmm", shapes=[[8, 512, 256], [8, 256, 64]]):
                b.kernel(GEMM, us=300)
    return b


@quiet
def the_second_product_takes_something_else() -> TraceBuilder:
    return model(take=256)


@quiet
def heads_too_long_for_the_fused_kernels() -> TraceBuilder:
    return model(depth=512)


@edge
def sequences_of_64(over: bool) -> TraceBuilder:
    return model(64 if over else 63)


@edge
def heads_of_256(over: bool) -> TraceBuilder:
    return model(depth=256 if over else 264)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::bmm", shapes=[[96, 512, 64], [96, 64, 512]])


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(4):
        b.kernel(GEMM, us=300, launched=False)
    return b
