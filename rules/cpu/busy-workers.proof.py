"""Proof of cpu/busy-workers: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.reading.program_settings import Loader
from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet

DECODES = {"share": 0.7, "function": "__getitem__", "file": "data.py", "line": 42}


def training(*, workers: int = 2, device: str | None = None, wait_us: int = 100, **recorded: Any) -> TraceBuilder:
    """Steps of 10 ms on two cores, of which workers take 0.6 and the process 1.2."""
    known = {
        "cores": 2,
        "threads": 2,
        "own_cores": 1.2,
        "workers_cores": 0.6,
        "others_cores": 0.05,
        "waited_share": 0.3,
    }
    loaders = [Loader(workers, file="train.py", line=7)]
    b = TraceBuilder(device, host_us=0).ran_with(**(known | {"loaders": loaders, "worker_lines": [DECODES]} | recorded))
    for _ in range(3):
        with b.step():
            with b.loader(us=wait_us, workers=workers):
                pass
            with b.op("aten::mkldnn_convolution", us=10_000 - wait_us):
                if device:
                    b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


# The operators take 9.9 of 10 ms; a third of the program's processor time is the workers'.
@fires(cost_ms=9.9, occurrences=3, severity="high")
def workers_that_decode_full_images() -> TraceBuilder:
    return training()


@fires(cost_ms=9.9, occurrences=3)
def started_by_spawn_only_their_loader_is_known() -> TraceBuilder:
    return training(worker_lines=None)


@fires(cost_ms=7.0, occurrences=3)
def some_of_the_step_is_a_wait_that_is_not_its() -> TraceBuilder:
    return training(wait_us=3000)


JITTER = {"share": 0.5, "function": "Jitter.__call__", "file": "data.py", "line": 9, "large": 0.5}


# Decoding takes 0.3 and pictures that are cropped later 0.5 of the workers' time.
@fires(fix="Crop or shrink before other transforms; Jitter.__call__ works on more than is kept", line="data.py:9")
def a_transform_of_pictures_that_are_cropped_later() -> TraceBuilder:
    return training(worker_lines=[DECODES | {"decodes": 0.3}, JITTER])


@fires(fix="Decode and resize once, into a cache or small files; augment what is small", line="data.py:42")
def pictures_that_are_decoded_and_resized() -> TraceBuilder:
    return training(worker_lines=[DECODES | {"decodes": 0.4, "resizes": 0.1}, JITTER | {"large": 0.3}])


@fires(fix="Read and decode once, into memory or small files", line="data.py:42")
def clips_that_are_unpacked() -> TraceBuilder:
    return training(worker_lines=[DECODES | {"decodes": 0.6}])


@fires(fix="Make what kernel returns once, and keep it: its arguments come again", line="dsp.py:5")
def a_kernel_of_the_same_numbers_for_each_clip() -> TraceBuilder:
    again = {"share": 0.6, "function": "kernel", "file": "dsp.py", "line": 3}
    return training(worker_lines=[DECODES, again | {"share": 0.4, "line": 5}], worker_repeat=again)


@fires(fix="Do less per sample in __getitem__; make once what all share, crop first, cache", line="data.py:42")
def what_takes_the_time_is_not_known() -> TraceBuilder:
    return training(worker_lines=[DECODES | {"decodes": 0.3, "large": 0.3}])


@quiet
def workers_that_take_little() -> TraceBuilder:
    return training(own_cores=1.85, workers_cores=0.1)


@quiet
def cores_that_are_free() -> TraceBuilder:
    return training(cores=8)


@quiet("not_applicable")
def the_main_process_loads() -> TraceBuilder:
    return training(workers=0)


@quiet("not_applicable")
def a_recording_that_does_not_tell() -> TraceBuilder:
    return training(workers_cores=None, own_cores=None)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return training(device="NVIDIA A100-SXM4-80GB")


# 0.281 of 2.001 cores, and 0.279 of 1.999.
@edge
def a_seventh_of_the_programs_time(over: bool) -> TraceBuilder:
    return training(own_cores=1.72, workers_cores=0.281 if over else 0.279)


@edge
def a_tenth_of_the_time_without_a_core(over: bool) -> TraceBuilder:
    return training(waited_share=0.1 if over else 0.099)


# 1.25 + 0.4 + 0.05 of two cores.
@edge
def most_cores_are_taken(over: bool) -> TraceBuilder:
    return training(own_cores=1.25 if over else 1.24, workers_cores=0.4)
