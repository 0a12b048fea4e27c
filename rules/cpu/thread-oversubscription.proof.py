"""Proof of cpu/thread-oversubscription: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import fires, quiet


def training(threads: int | None, cores: int | None = 4, *, device: str | None = None) -> TraceBuilder:
    """Steps of one operator, of a program with this many threads and cores."""
    b = TraceBuilder(device).ran_with(threads=threads, cores=cores)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=9000):
                pass
            if device:
                b.kernel("volta_sgemm_128x64_nn", ms=9)
    return b


@fires(severity="medium", setting="torch.get_num_threads()=64 → 4")
def a_container_of_four_cores_on_a_machine_of_64() -> TraceBuilder:
    return training(64)


@fires(setting="torch.get_num_threads()=5 → 4")
def one_thread_too_many() -> TraceBuilder:
    return training(5)


@quiet
def a_thread_a_core() -> TraceBuilder:
    return training(4)


@quiet("not_applicable")
def threads_that_were_not_recorded() -> TraceBuilder:
    return training(None)


@quiet("not_applicable")
def cores_that_were_not_recorded() -> TraceBuilder:
    return training(64, None)


# The operators of a program on a GPU run there.
@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return training(64, device="Tesla T4")
