"""Proof of compile/runs-eagerly: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import fires, lacks, quiet

LOOKUP = "TorchDynamo Cache Lookup"


def training(*, lookups: int = 1, region: bool = False, device: str | None = None, steps: int = 4) -> TraceBuilder:
    """Steps that look a function up, and run it."""
    b = TraceBuilder(device, host_us=0)
    for _ in range(steps):
        with b.step():
            for _ in range(lookups):
                with b.python("train.py(12): forward"), b.op(LOOKUP, us=40):
                    pass
            with b.python("train.py(13): forward"):
                if region:
                    with b.op("Torch-Compiled Region: 0/0"), b.op("aten::mm", us=4000):
                        pass
                else:
                    with b.op("aten::mm", us=4000):
                        if device:
                            b.kernel("volta_sgemm_128x64_nn", us=3000)
            if device:
                b.sync(us=0)
    return b


@fires(severity="medium", occurrences=4, line="train.py:12")
def a_function_is_looked_up_and_runs_eagerly() -> TraceBuilder:
    return training()


@fires(severity="medium", occurrences=8)
def on_a_gpu() -> TraceBuilder:
    return training(lookups=2, device="Tesla T4")


@quiet("not_applicable")
def compiled_code_runs() -> TraceBuilder:
    return training(region=True)


@quiet
def nothing_was_compiled() -> TraceBuilder:
    return training(lookups=0)


@lacks("steps")
def no_steps() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0)
    with b.op(LOOKUP, us=40):
        pass
    with b.op("aten::mm", us=4000):
        pass
    return b


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_nn")
