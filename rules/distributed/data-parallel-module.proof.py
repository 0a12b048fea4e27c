"""Proof of distributed/data-parallel-module: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def training(devices: int = 2, *, replicas: bool = True) -> TraceBuilder:
    """Steps that copy the model to all GPUs, run it on each, and gather the outputs on the first."""
    b = TraceBuilder("Tesla V100-SXM2-16GB", devices=devices)
    for _ in range(3):
        with b.step(), b.annotation("DataParallel.forward"):
            for name in ("Scatter", "Broadcast") if replicas else ():
                with b.op(name):
                    b.copy("PtoP", 4 << 20, us=100, peer=1)
            for device in range(devices):
                with b.op("aten::mm"):
                    b.kernel("volta_sgemm_128x64_nn", us=500, device=device)
            if replicas:
                with b.op("Gather"):
                    b.copy("PtoP", 1 << 20, us=50, peer=1)
    return b


# Scatter, Broadcast and Gather in each of three steps.
@fires(severity="medium", occurrences=9)
def two_gpus_in_one_process() -> TraceBuilder:
    return training()


@quiet
def two_gpus_that_each_run_their_own() -> TraceBuilder:
    return training(replicas=False)


@edge
def two_gpus(over: bool) -> TraceBuilder:
    return training(2 if over else 1)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("Broadcast")


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    b = TraceBuilder(devices=2)
    b.kernel("volta_sgemm_128x64_nn", us=50, launched=False)
    b.kernel("volta_sgemm_128x64_nn", us=50, device=1, launched=False)
    return b
