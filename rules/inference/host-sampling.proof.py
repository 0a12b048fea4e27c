"""Proof of inference/host-sampling: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import VLLM, annotation, layers

A100, MI300 = "NVIDIA A100-PCIE-40GB", "AMD Instinct MI300X"


def decoding(
    device: str = A100,
    *,
    engine: bool = True,
    tokens: int = 6,
    sequences: int = 16,
    columns: int = 32_000,
    cpu_us: float = 1500,
    where: str = "host",
    choice: str = "aten::multinomial",
    shapes: bool = True,
    backward: bool = False,
) -> TraceBuilder:
    """Batches of 4 ms whose scores, 2 MB in 100 us, are copied and sampled on the CPU in 1.5 ms; the token comes back."""
    b = TraceBuilder(device, record_shapes=shapes, host_us=1, latency_us=0)
    scores = [sequences, columns]
    for number in range(tokens):
        with b.annotation(annotation(VLLM, decoding=sequences) if engine else "generate"):
            b.graph(layers(10, 100))
            if where == "host":
                with b.op("aten::to", shapes=[scores, [], [], [], []]), b.op("aten::_to_copy", shapes=[scores]):
                    b.copy("DtoH", 4 * sequences * columns, us=100)
                with b.op("aten::softmax", shapes=[scores, [], []], us=cpu_us / 2):
                    pass
                with b.op(choice, shapes=[scores, [], [], []], us=cpu_us / 2):
                    pass
                with b.op("aten::to", shapes=[[sequences, 1], [], [], [], []]), b.op("aten::_to_copy"):
                    b.copy("HtoD", 8 * sequences, us=2)
            else:
                with b.op("aten::softmax", shapes=[scores, [], []]):
                    b.kernel("softmax_warp_forward", us=20)
                with b.op(choice, shapes=[scores, [], [], []]):
                    b.kernel("at::native::sampleMultinomialOnce", us=20)
                with b.op("aten::to", shapes=[[sequences, 1], [], [], [], []]), b.op("aten::_to_copy"):
                    b.copy("DtoH", 8 * sequences, us=2)
            if backward:
                with b.backward("MulBackward0", seq=number):
                    pass
    return b


# A copy of 100 us and 1,500 us of the CPU a token, but for what the call of the copy itself takes.
@fires(cost_ms=1.6, severity="high", occurrences=6, fix="Sample on the GPU: no processor of logits on the CPU")
def a_processor_of_logits_in_vllm() -> TraceBuilder:
    return decoding()


@fires(occurrences=6, fix="Sample on the GPU, and copy the token alone")
def a_loop_of_the_user_s_own_on_an_mi300() -> TraceBuilder:
    return decoding(MI300, engine=False)


@quiet
def sampled_on_the_gpu() -> TraceBuilder:
    return decoding(where="gpu")


@quiet
def scores_that_nothing_chooses_from() -> TraceBuilder:
    return decoding(choice="aten::mul")


@quiet("not_applicable")
def training() -> TraceBuilder:
    return decoding(backward=True)


@edge
def a_thousand_columns(over: bool) -> TraceBuilder:
    return decoding(columns=1000 if over else 999)


@edge
def three_tokens(over: bool) -> TraceBuilder:
    return decoding(tokens=3 if over else 2)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return decoding(shapes=False)


@lacks("gpu", verdict="not_applicable")
def a_program_on_the_cpu() -> TraceBuilder:
    return host_alone("aten::multinomial")
