"""Proof of gpu-idle/processor: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import Part, behind

NORMALIZE = "/venv/lib/python3.12/site-packages/transformers/image_transforms.py(390): normalize"


def processing(frame: str = NORMALIZE, us: int = 3000, *, op: str = "") -> Part:
    """A function that takes so long in Python, or in an operator on the CPU."""

    def part(b: TraceBuilder) -> None:
        with b.python("serve.py(7): prepare"), b.python(frame):
            if op:
                with b.op(op, us=us):
                    pass
            else:
                b.idle(us=us)

    return part


# 3 ms of 20, in each of four steps.
@fires(cost_ms=3, cost_share=0.15, occurrences=4, severity="medium", line="serve.py:7")
def images_are_normalized_on_the_cpu() -> TraceBuilder:
    return behind(processing())


# The same by torch's own operators: the processor runs them on the CPU.
@fires(cost_ms=3, cost_share=0.15)
def a_processor_that_computes_with_torch() -> TraceBuilder:
    return behind(processing(op="aten::div"))


@fires(cost_ms=9, cost_share=0.9, severity="high")
def an_image_is_resized_by_pillow_on_an_amd_machine() -> TraceBuilder:
    frame = "/opt/conda/lib/python3.10/site-packages/PIL/Image.py(2200): resize"
    return behind(processing(frame, 9000), work_us=1000, device="AMD Instinct MI300X")


@fires(cost_ms=3, cost_share=0.15)
def a_tokenizer_without_a_place() -> TraceBuilder:
    return behind(processing("<built-in method encode_batch of tokenizers.Tokenizer object at 0x7f>"))


@quiet
def a_function_of_the_programs_own() -> TraceBuilder:
    return behind(processing("serve.py(30): schedule"))


@quiet
def a_model_of_transformers() -> TraceBuilder:
    return behind(
        processing("/venv/lib/python3.12/site-packages/transformers/models/bert/modeling_bert.py(9): forward")
    )


@quiet
def in_the_loaders_wait() -> TraceBuilder:
    def part(b: TraceBuilder) -> None:
        with b.loader():
            processing()(b)

    return behind(part)


# The first call sets something up: it takes ten times as long as the others, which take 1 %.
@quiet
def the_first_call() -> TraceBuilder:
    done: list[int] = []

    def part(b: TraceBuilder) -> None:
        processing(us=170 if done else 30_000)(b)
        done.append(1)

    return behind(part)


@edge
def three_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # 530 us beside 17 ms are 3.02 %, 520 us 2.97 %.
    return behind(processing(us=530 if over else 520))


@edge
def twenty_kernels_with_fewer_steps(over: bool) -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(20 if over else 19):
        if number == 10:
            processing()(b)
        with b.op("aten::mm", us=100):
            b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::mm")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")


@lacks("stacks")
def no_stacks() -> TraceBuilder:
    return behind(processing(), with_stack=False)
