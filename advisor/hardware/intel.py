"""Intel's Data Center GPU Max.

A device of torch is one stack of a Max 1550 (Level Zero lists stacks, unless it is told to list packages), and the units
that are counted are vector engines, eight an Xe core.
"""

from __future__ import annotations

from advisor.hardware.rates import Device, Peaks

_MAX = "Intel Data Center GPU Max Series Technical Overview (operations a clock of an Xe core); Intel ARK, {}"

DEVICES = (
    Device(
        "Max 1550, a stack", r"Data Center GPU Max 1550", "xe", _MAX.format("Data Center GPU Max 1550"),
        Peaks(26.2, None, 26.2, None, 209.7, 419.4, 419.4, int8=838.9), 512, 64,
        memory=1638.0, l2_mib=204, pcie=5, per="one of the package's two stacks",
    ),
    Device(
        "Max 1550, a stack of 56 Xe cores", r"Data Center GPU Max 1550", "xe",
        _MAX.format("Data Center GPU Max 1550") + "; 56 of 64 Xe cores: what torch lists of Aurora's boards, in ALCF's user guide",
        Peaks(22.9, None, 22.9, None, 183.5, 367.0, 367.0, int8=734.0), 448, 64,
        memory=1638.0, l2_mib=204, pcie=5, per="one of the package's two stacks",
    ),
    Device(
        "Max 1550", r"Data Center GPU Max 1550", "xe", _MAX.format("Data Center GPU Max 1550"),
        Peaks(52.4, None, 52.4, None, 419.4, 838.9, 838.9, int8=1677.7), 1024, 128,
        memory=3277.0, l2_mib=408, pcie=5,
    ),
    Device(
        "Max 1100", r"Data Center GPU Max 1100", "xe", _MAX.format("Data Center GPU Max 1100"),
        Peaks(22.2, None, 22.2, None, 177.8, 355.5, 355.5, int8=711.1), 448, 48,
        memory=1229.0, pcie=5,
    ),
)  # fmt: skip
