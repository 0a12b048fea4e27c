"""Devices of one process that wait for each other: what is laid at another one's door, and what is not.

Times in the traces are us, as the profiler writes them; causes are in ns.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.raw_events import gpu, host, kernel, launch, op, read


def causes(events: list[dict[str, Any]], device: int = 0) -> dict[str, int]:
    trace = read(events)
    return {cause: ns for cause, ns in trace.context.ledger_of(device).by_cause().items() if ns}


def test_work_that_was_queued_waits_for_the_device_whose_work_ends_before_it() -> None:
    """Both kernels of GPU 0 are launched by 8; the second runs when GPU 1, 30 to 70, is done."""
    work = [kernel(10, 20, 1), kernel(30, 40, 2, device=1), kernel(72, 28, 3)]
    found = causes([op("a", 0, 100), launch(1, 1), launch(2, 4), launch(3, 7), *work])
    assert found == {"compute": 48_000, "other_device": 40_000, "unknown": 2_000}


def test_work_that_was_queued_and_begins_long_after_the_other_device_waits_for_something_else() -> None:
    work = [kernel(10, 20, 1), kernel(30, 40, 2, device=1), kernel(172, 28, 3)]
    found = causes([op("a", 0, 200), launch(1, 1), launch(2, 4), launch(3, 7), *work])
    assert "other_device" not in found


def test_launches_that_come_late_are_the_hosts_where_devices_work_on_their_own() -> None:
    """GPU 1 works from 30 to 70, and GPU 0's next kernel is launched at 78."""
    work = [kernel(10, 20, 1), kernel(30, 40, 2, device=1), kernel(80, 20, 3)]
    events = [op("a", 0, 100), launch(1, 1), launch(2, 4), launch(3, 78), *work]
    assert "other_device" not in causes(events)


@pytest.mark.parametrize(
    ("name", "operator", "passes"),
    [
        ("Memcpy PtoP (Device -> Device)", "aten::copy_", True),
        ("Memcpy DtoD (Device -> Device)", "aten::_to_copy", True),
        ("CopyDeviceToDevice", "aten::_to_copy", True),
        ("Memcpy DtoD (Device -> Device)", "aten::clone", False),
    ],
)
def test_a_copy_between_devices_shows_that_they_work_in_turn(name: str, operator: str, passes: bool) -> None:
    """As before, and what GPU 1 works on was copied to it at 28, as AMD's profiler, or NVIDIA's, calls it."""
    work = [
        kernel(10, 18, 1),
        gpu("gpu_memcpy", name, 28, 2, 4, bytes=64),
        kernel(30, 40, 2, device=1),
        kernel(80, 20, 3),
    ]
    events = [op("a", 0, 2), op(operator, 2, 3), launch(4, 2, name="cudaMemcpyAsync"), op("b", 6, 94)]
    found = causes([*events, launch(1, 1), launch(2, 7), launch(3, 78), *work])
    assert found.get("other_device", 0) == (40_000 if passes else 0)


def test_a_wait_of_another_thread_says_nothing_of_this_device() -> None:
    """Thread 2 waits for GPU 1 from 32 to 70; thread 1, busy in Python until then, launches on GPU 0 at 78."""
    work = [kernel(10, 20, 1), kernel(30, 40, 2, device=1), kernel(80, 20, 3)]
    wait = {**host("cuda_runtime", "cudaStreamSynchronize", 32, 38, 9), "tid": 777}
    events = [op("a", 0, 100), launch(1, 1), launch(2, 4), launch(3, 78), *work, wait]
    assert "other_device" not in causes(events)


def test_the_program_ends_with_the_last_device() -> None:
    work = [kernel(10, 50, 1), kernel(10, 20, 2, device=1), kernel(60, 30, 3, device=1)]
    trace = read([op("a", 0, 20), launch(1, 1), launch(2, 4), launch(3, 7), *work])
    assert trace.device == 0 or trace.frame("devices")["busy_ns"].tolist() == [50_000, 50_000]
    assert trace.context.ledger_of(0).by_cause()["other_device"] == 30_000


def test_kernels_of_the_other_device_own_the_time_that_is_waited_for() -> None:
    work = [kernel(10, 20, 1), kernel(30, 15, 2, device=1), kernel(45, 15, 4, device=1), kernel(61, 39, 3)]
    trace = read([op("a", 0, 100), launch(1, 1), launch(2, 4), launch(4, 5), launch(3, 7), *work])
    assert trace.device == 0
    rows = trace.kernels
    assert rows["awaited_ns"].tolist() == [0, 15_000, 15_000, 0]
    # Their cost is what they own on their own device.
    assert rows["cost_ns"].tolist() == [20_000, 15_000, 15_000, 39_000]
