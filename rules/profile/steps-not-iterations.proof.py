"""Proof of profile/steps-not-iterations: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def training(*batches: int, workers: int = 0) -> TraceBuilder:
    """Steps with so many batches each."""
    b = TraceBuilder()
    for count in batches:
        with b.step():
            for _ in range(count):
                with b.loader(us=500, workers=workers):
                    pass
                b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b


@fires(note="several iterations")
def epochs_as_steps() -> TraceBuilder:
    return training(20, 20, 20)


@fires()
def epochs_as_steps_with_workers() -> TraceBuilder:
    return training(20, 20, 20, workers=4)


@quiet
def a_batch_in_every_step() -> TraceBuilder:
    return training(1, 1, 1, 1)


@quiet
def one_step_that_validates() -> TraceBuilder:
    return training(1, 1, 30, 1)


@quiet
def steps_without_a_loader() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(3):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=1_000)
            b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b


def detected(images: int) -> TraceBuilder:
    """Steps of one call of the zero-shot detection pipeline, which asks for three labels of each image one by one."""
    file = "/usr/lib/python3/site-packages/transformers/pipelines/zero_shot_object_detection.py"
    b = TraceBuilder(with_stack=True)
    for _ in range(3):
        with b.step():
            for _ in range(images):
                for label in range(3):
                    with b.loader(us=500), b.python(f"{file}({176 if label else 164}): preprocess"):
                        b.idle(us=400)
                    with b.python(f"{file}(184): _forward"), b.op("aten::linear"):
                        b.kernel("volta_sgemm_128x64_nn", us=1_000)
                    b.sync()
    return b


@quiet
def labels_of_one_image() -> TraceBuilder:
    return detected(1)


@fires()
def labels_of_three_images() -> TraceBuilder:
    return detected(3)


@edge
def two_batches_in_a_step(over: bool) -> TraceBuilder:
    return training(2, 2, 2) if over else training(2, 1, 1)


@lacks("steps")
def no_steps() -> TraceBuilder:
    # One batch: nothing repeats that a step could be found by.
    b = TraceBuilder()
    with b.loader(us=500):
        pass
    b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b


# advisor record counts four backward passes to one step of the optimizer: gradients are accumulated.
@quiet
def micro_batches_of_a_known_number() -> TraceBuilder:
    return training(4, 4, 4).ran_with(backwards_per_step=4)
