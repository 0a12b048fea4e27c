"""Proof of distributed/pipeline-wait: traces of one rank on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.stages import pipeline, record

GPU = "NVIDIA A100-SXM4-80GB"
EVEN = (1_000, 2_000)
KERNEL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def passing(
    calls: str, *, other_back: int = 16_777_216, steps: int = 4, compute_us: int = 2_000, last: str = ""
) -> TraceBuilder:
    """Steps of rank 0 of two, which computes before each message of 1 ms: ``s`` sends, ``r`` receives, ``b`` does both at once.

    *last* are messages behind the last step, outside of it.
    """
    b = TraceBuilder(GPU, rank=0, world_size=2, host_us=1, latency_us=0)

    def message(call: str) -> None:
        whats = {"s": ["send"], "r": ["recv"], "b": ["send", "recv"]}[call]
        for what in whats:
            size = other_back if what == "recv" else 16_777_216
            with b.op("record_param_comms", args=record(what, 1, [0, 1], size)):
                pass
        with b.annotation("nccl:coalesced"):
            b.kernel(KERNEL, us=1_000)

    for _ in range(steps):
        with b.step():
            for number, call in enumerate(calls):
                with b.backward("MmBackward0", seq=number + 1) if number % 2 else b.op("aten::linear"):
                    b.kernel("ampere_bf16_s16816gemm_128x64_tn", us=compute_us)
                message(call)
            b.sync("cudaDeviceSynchronize")
    for call in last:
        message(call)
    return b


# Eight passes each way, of 24 ms; a step of 33 ms and some messages: 9.9 ms of the first stage's are waited and passed on.
@fires(
    cost_ms=9.94,
    fix="Compare the stages, even them out, then divide the batch into more micro-batches",
)
def the_first_of_four_stages() -> TraceBuilder:
    return pipeline([EVEN] * 4, 8)[0]


@fires(cost_ms=9.94)
def the_last_of_four_stages() -> TraceBuilder:
    return pipeline([EVEN] * 4, 8)[3]


@fires()
def sends_and_receives_in_one_kernel() -> TraceBuilder:
    return pipeline([EVEN] * 4, 8, coalesced=True)[1]


@fires()
def a_stage_in_a_loop_of_its_own() -> TraceBuilder:
    return passing("sbbbr")


# Each message goes one way as the other comes: attention over parts of the sequence, or borders of images.
@quiet("not_applicable")
def a_ring_of_two() -> TraceBuilder:
    return passing("bbbbb")


# What comes back is of another size: a server of parameters, or a learner and its actors.
@quiet("not_applicable")
def an_answer_of_another_size() -> TraceBuilder:
    return passing("sbbbr", other_back=4_000)


@quiet("not_applicable")
def weights_that_are_handed_on() -> TraceBuilder:
    return passing("ss")


# A checkpoint behind the training is no pipeline of its steps.
@quiet("not_applicable")
def one_question_and_its_answer() -> TraceBuilder:
    return passing("b")


@quiet("not_applicable")
def a_checkpoint_at_the_end() -> TraceBuilder:
    return passing("", last="ssrr")


# Ten messages are 10 of 10 + 10 x compute: the middle of what is returned is 45 % of that, and 4.5 % a tenth.
@edge
def a_tenth_of_the_step(over: bool) -> TraceBuilder:
    return passing("sbbbbbbbbr", compute_us=8_500 if over else 9_500)


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder(GPU)
    with b.step():
        b.kernel("ampere_sgemm_128x64_tn", us=1_000)
    return b
