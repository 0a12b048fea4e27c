"""Proof of sync/launch-blocking: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.accelerators import Accelerator
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def training(waiting: int = 20, us: int = 50, *, device: str | None = "NVIDIA A100-PCIE-40GB") -> TraceBuilder:
    """Steps of 20 operators that take the host 30 us and the GPU *us*; *waiting* of the launches wait for their kernel.

    A launch takes 6 us where it does not wait, and its kernel starts 2 us after it was called where it does.
    """
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step():
            for number in range(20):
                with b.op("aten::mm"):
                    b.idle(30)
                    start = b.now_ns / 1000
                    if number < waiting:
                        b.kernel("ampere_sgemm_128x64_tn", us=us, at_us=start + 2, host_us=us + 3)
                    else:
                        b.kernel("ampere_sgemm_128x64_tn", us=us)
            b.idle(10)
    return b


# Between two kernels pass the last us of the wait, 30 us on the host and 2 to the start: 33 us, 19 times a step and once
# more with the step's own 10: 20 * 33 + 10.
@fires(cost_ms=0.67, severity="high")
def every_launch_waits() -> TraceBuilder:
    return training()


# Clocks 4 us apart, as an accelerator's are from the host's: each call seems to return 1 us before its kernel's end.
@fires(severity="high", fix="Unset ZE_SERIALIZE, or hand over fewer and larger pieces")
def an_accelerator_whose_runtime_hands_over_piece_by_piece() -> TraceBuilder:
    b = TraceBuilder("Intel(R) Data Center GPU Max 1550", vendor="intel")
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op("aten::mm"):
                    b.idle(30)
                    start = b.now_ns / 1000
                    b.kernel("fc-dtype_Float", us=50, at_us=start + 4, host_us=53)
            b.idle(10)
    return b


def handed_over(maker: str, **options: Any) -> Accelerator:
    """Steps of 20 operators of another maker's device, each of 30 us on the host and a call that waits for its 50 us."""
    b = Accelerator(maker, **options)
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op("aten::mm"):
                    b.idle(30)
                    b.job("fc-dtype_Float", 50, host_us=3, waits=True)
    return b


@fires(
    cost_ms=0.66,
    severity="high",
    fix="Let launches return before their work is done, or hand over fewer and larger pieces",
)
def a_device_whose_switch_nobody_knows() -> Accelerator:
    return handed_over("mtia")


NPU = {"distributedInfo": {"backend": "npu:hccl,cpu:gloo", "rank": 0, "world_size": 1}}


@fires(cost_ms=0.66, severity="high", fix="Unset ASCEND_LAUNCH_BLOCKING, or hand over fewer and larger pieces")
def a_device_that_its_process_group_names() -> Accelerator:
    return handed_over("privateuse1", metadata=NPU)


# Operators that return when their transfers are done: 4.1 ms of a step of 14.3, and 0.12 ms in which launches are called.
@quiet
def copies_that_operators_wait_for() -> Accelerator:
    b = Accelerator()
    for _ in range(4):
        with b.step():
            b.job("fc", 10_000, waits=True)
            for _ in range(5):
                with b.op("aten::fill_"):
                    b.transfer(host_us=400)
                    b.transfer(host_us=400)
                b.job("sum", 20, waits=True)
    return b


# A stream that is full: each launch returns when the first of a thousand others has ended, long before its own kernel begins.
@quiet
def launches_that_wait_for_room_in_the_queue() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        with b.step():
            b.kernel("ampere_sgemm_128x64_tn", us=3000, host_us=6)
            for _ in range(20):
                with b.op("aten::mm"):
                    b.kernel("ampere_sgemm_128x64_tn", us=50, host_us=50)
            b.sync()
    return b


# Long calls with a copy between them: the calls last, but their kernels begin when the device gets to them.
@quiet
def a_slow_host_that_launches_ahead_of_a_busy_device() -> TraceBuilder:
    b = TraceBuilder("AMD Instinct MI300X")
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op("aten::mm"):
                    b.idle(20)
                    b.kernel("Cijk_Ailk_Bljk_HHS_BH", us=60, host_us=25)
            b.sync()
    return b


@quiet
def launches_that_return_at_once() -> TraceBuilder:
    return training(0)


# Kernels of 5 us end before the call returns with or without the setting: they prove nothing.
@quiet
def kernels_too_short_to_tell() -> TraceBuilder:
    return training(us=5)


@edge
def four_fifths_of_the_launches(over: bool) -> TraceBuilder:
    return training(16 if over else 15)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm", device="NVIDIA A100-PCIE-40GB")


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_tn", device="NVIDIA A100-PCIE-40GB")
