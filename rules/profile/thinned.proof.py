"""Proof of profile/thinned: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet


def work(b: TraceBuilder) -> None:
    """An operator of 100 us that launches a kernel."""
    with b.op("aten::mm", us=100):
        b.kernel("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n", us=50)


def filtered(missing: int, ms: float = 5, **features: bool) -> TraceBuilder:
    """Four steps of 10 ms; in each, *missing* events do not stand in the file where *ms* pass between two operators."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", **features)
    for _ in range(4):
        with b.step():
            work(b)
            b.taken_out(missing)
            b.idle(ms=ms)
            work(b)
            b.idle(ms=9.8 - ms)
            b.sync()
    return b


@fires(note="Events were taken out of the file")
def half_of_each_step_is_gone() -> TraceBuilder:
    return filtered(3_000)


@fires(note="Events were taken out of the file")
def a_host_of_many_python_calls() -> TraceBuilder:
    return filtered(3_000, with_stack=True)


@quiet
def a_file_as_the_profiler_wrote_it() -> TraceBuilder:
    return filtered(0)


@quiet
def a_file_cut_to_a_stretch_of_time() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    b.taken_out(5_000_000)
    for _ in range(4):
        with b.step():
            for _ in range(50):
                work(b)
            b.sync()
    return b


@quiet
def a_moment_of_each_step() -> TraceBuilder:
    return filtered(90)


@edge
def a_tenth_of_the_time(over: bool) -> TraceBuilder:
    return filtered(3_000, ms=1.1 if over else 0.8)
