"""Proof of data-loading/slow-collate-or-transform: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def batches(
    resize_us: int = 4000,
    flip_us: int = 1000,
    *,
    workers: int = 0,
    work_ms: int = 10,
    ahead: bool = False,
    library: bool = False,
    with_stack: bool = True,
) -> TraceBuilder:
    """Steps whose batch is made of two samples, each resized and flipped; then 10 ms of kernels."""
    b = TraceBuilder(host_us=0, latency_us=0, with_stack=with_stack)
    if ahead:
        b.kernel("long", ms=400)
    resize = "scipy/ndimage/_interpolation.py(739): zoom" if library else "augment.py(12): resize"
    for _ in range(4):
        with b.step(), b.python("train.py(30): main"):
            with b.loader(us=100, workers=workers), b.python("torch/utils/data/_utils/fetch.py(49): fetch"):
                for _ in range(2):
                    b.idle(us=1)
                    with b.python("data.py(14): __getitem__"):
                        b.idle(us=1)
                        with b.python(resize):
                            b.idle(us=resize_us)
                        with b.python("augment.py(40): flip"):
                            b.idle(us=flip_us)
            with b.op("aten::mm", us=1000 * work_ms):
                b.kernel("volta_sgemm_128x64_nn", ms=work_ms)
    return b


# resize holds 80 % of the loading: it, and not __getitem__ around it.
@fires(occurrences=1, severity="low", line="augment.py:12")
def a_slow_resize() -> TraceBuilder:
    return batches()


# The library's function holds the time; the line of the user's is the one that leads to it.
@fires(occurrences=1, line="data.py:14")
def a_slow_function_of_a_library() -> TraceBuilder:
    return batches(library=True)


@fires(occurrences=1)
def on_a_machine_without_a_gpu() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(4):
        with b.step():
            b.idle(us=1)
            with b.loader(us=100):
                b.idle(us=1)
                with b.python("data.py(14): __getitem__"):
                    b.idle(us=4000)
            with b.op("aten::mm", us=10_000):
                pass
    return b


# Two functions of the same weight: what holds half of it is the __getitem__ that calls them.
@fires(occurrences=1, line="data.py:14")
def two_functions_alike() -> TraceBuilder:
    return batches(2500, 2500)


@quiet
def workers_of_which_nothing_is_seen() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step(), b.python("train.py(30): main"):
            with b.loader(us=8000, workers=4), b.python("torch/utils/data/dataloader.py(1468): _next_data"):
                b.idle(us=8000)
            with b.op("aten::mm", us=10_000):
                b.kernel("volta_sgemm_128x64_nn", ms=10)
    return b


@quiet
def loading_that_the_device_hides() -> TraceBuilder:
    return batches(ahead=True)


@quiet
def torch_itself_copies_the_samples() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step(), b.python("train.py(30): main"):
            b.idle(us=1)
            with b.loader(us=8000), b.python("torch/utils/data/_utils/collate.py(340): default_collate"):
                b.idle(us=8000)
            with b.op("aten::mm", us=10_000):
                b.kernel("volta_sgemm_128x64_nn", ms=10)
    return b


@edge
def half_of_the_loading(over: bool) -> TraceBuilder:
    # One sample: 4 ms in the function, and 3.9 or 4.1 beside it.
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step(), b.python("train.py(30): main"):
            with b.loader(us=100):
                b.idle(us=3900 if over else 4100)
                with b.python("data.py(14): __getitem__"):
                    b.idle(us=4000)
            with b.op("aten::mm", us=10_000):
                b.kernel("volta_sgemm_128x64_nn", ms=10)
    return b


@edge
def the_loader_owns_a_twentieth(over: bool) -> TraceBuilder:
    # 2 x 502 us of loading before 18 ms or 20 ms of work: 5.3 % and 4.8 %.
    return batches(400, 100, work_ms=18 if over else 20)


@lacks("stacks")
def no_stacks() -> TraceBuilder:
    return batches(with_stack=False)


@lacks("loader", verdict="not_applicable")
def no_loader() -> TraceBuilder:
    b = TraceBuilder()
    with b.step(), b.python("train.py(30): main"), b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", ms=20)
    return b
