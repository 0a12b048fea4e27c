"""Proof of gpu-idle/kernel-selection: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def convolutions(
    us: int = 5000, *, steps: int = 6, new: tuple[int, ...] = (0, 1, 2, 3, 4, 5), work_us: int = 20_000, second: int = 1,
    name: str = "aten::cudnn_convolution", device: str = "Tesla V100-SXM2-16GB", trains: bool = False,
) -> TraceBuilder:  # fmt: skip
    """Steps of ten convolutions and a product of 20 ms; in the *new* ones the first has another shape, and takes so long.

    In the second step so many times as long.
    """
    b = TraceBuilder(device, host_us=0, latency_us=0)
    for number in range(steps):
        with b.step():
            for at in range(10):
                fresh = not at and number in new
                side = 100 + number if fresh else 64
                with b.op(name, shapes=[[8, 3, side, side], [16, 3, 3, 3]]):
                    b.idle(us=us * (second if number == 1 else 1) if fresh else 20)
                    b.kernel("implicit_convolve_sgemm", us=20, host_us=20)
            with b.op("aten::mm", us=work_us, seq=number):
                b.kernel("volta_sgemm_128x64_nn", us=work_us)
            if trains:
                with b.backward("MmBackward0", number):
                    b.kernel("volta_sgemm_128x64_nt", us=100)
    return b


# Of six steps five are steady, with 5 ms each: the first's choice is start-up, and the second's comes again in each later step.
# A step is 20.38 ms of other work.
@fires(severity="high", occurrences=5, cost_share=5 / (20.38 + 5))
def another_shape_in_every_step() -> TraceBuilder:
    return convolutions()


@fires(occurrences=5)
def miopen_chooses_as_well() -> TraceBuilder:
    return convolutions(name="aten::miopen_convolution", device="AMD Instinct MI300X")


@fires(severity="high", occurrences=5, fix="Pad batches to a few lengths, or keep attention off cuDNN")
def attention_planned_for_each_length_of_a_batch_of_texts() -> TraceBuilder:
    return convolutions(name="aten::_cudnn_attention_forward", trains=True)


# cuDNN plans attention for each length: a cache of keys and values grows, and cudnn.benchmark has nothing to do with it.
@fires(severity="high", occurrences=5, fix="Keep attention off cuDNN, or the lengths of keys and values fixed")
def attention_planned_for_each_length_of_a_growing_cache() -> TraceBuilder:
    return convolutions(name="aten::_cudnn_attention_forward")


# The second step chose for more than a new shape: that is start-up, and four steps of 5 ms are left.
@fires(severity="high", occurrences=4)
def a_second_step_that_chooses_for_three_times_as_long() -> TraceBuilder:
    return convolutions(second=3)


# The shapes of the first steps are all there are: that is start-up.
@quiet
def a_choice_in_the_first_steps() -> TraceBuilder:
    return convolutions(new=(0, 1))


@quiet
def no_new_shape() -> TraceBuilder:
    return convolutions(new=())


@edge
def three_steps_behind_the_second(over: bool) -> TraceBuilder:
    return convolutions(new=(0, 1, 2, 3, 4) if over else (0, 1, 2, 3))


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::mkldnn_convolution")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("implicit_convolve_sgemm")


@lacks("steps")
def no_steps() -> TraceBuilder:
    b = TraceBuilder()
    with b.op("aten::cudnn_convolution", shapes=[[8, 3, 64, 64]]):
        b.kernel("implicit_convolve_sgemm", us=20)
    return b
