"""Devices of a built trace: the facts that Kineto writes under ``deviceProperties``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from advisor.regex import regex

_AMD = regex(r"AMD|Radeon|Instinct", re.IGNORECASE)


@dataclass(frozen=True)
class Device:
    """One GPU, as its properties are written."""

    name: str
    vendor: str
    capability: tuple[int, int]
    memory_bytes: int
    sms: int
    warp: int = 32
    threads_per_sm: int = 2048
    blocks_per_sm: int = 32
    registers_per_sm: int = 65536
    shared_per_block: int = 49152
    shared_per_block_optin: int = 101376
    shared_per_sm: int = 102400

    def properties(self, number: int) -> dict[str, Any]:
        """Return the entry of ``deviceProperties``."""
        common = {
            "id": number,
            "name": self.name,
            "totalGlobalMem": self.memory_bytes,
            "computeMajor": self.capability[0],
            "computeMinor": self.capability[1],
            "maxThreadsPerBlock": 1024,
            "maxThreadsPerMultiprocessor": self.threads_per_sm,
            "regsPerBlock": 65536,
            "warpSize": self.warp,
            "sharedMemPerBlock": self.shared_per_block,
            "numSms": self.sms,
        }
        if self.vendor == "amd":
            return common | {"maxSharedMemoryPerMultiProcessor": self.shared_per_sm}
        return common | {
            "regsPerMultiprocessor": self.registers_per_sm,
            "sharedMemPerBlockOptin": self.shared_per_block_optin,
            "sharedMemPerMultiprocessor": self.shared_per_sm,
        }

    def launch_facts(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], registers: int, shared: int
    ) -> dict[str, Any]:
        """Return the facts that CUPTI and Kineto write of a launch: blocks and warps per SM, and the occupancy they estimate."""
        threads = block[0] * block[1] * block[2]
        blocks_per_sm = grid[0] * grid[1] * grid[2] / self.sms
        resident = min(self.blocks_per_sm, self.threads_per_sm // threads)
        if registers:
            resident = min(resident, self.registers_per_sm // (registers * threads))
        if shared:
            resident = min(resident, self.shared_per_sm // shared)
        # Kineto's formula (CuptiActivity): what fits, or what there is, of the SM's threads.
        occupancy = round(100 * min(resident, blocks_per_sm) * threads / self.threads_per_sm)
        return {
            "registers per thread": registers,
            "shared memory": shared,
            "blocks per SM": round(blocks_per_sm, 6),
            "warps per SM": round(blocks_per_sm * threads / self.warp, 6),
            "grid": list(grid),
            "block": list(block),
            "est. achieved occupancy %": occupancy,
        }


_VOLTA = {"shared_per_block_optin": 98304, "shared_per_sm": 98304}
_AMPERE = {"shared_per_block_optin": 166912, "shared_per_sm": 167936}
_HOPPER = {"shared_per_block_optin": 232448, "shared_per_sm": 233472}
_TURING = {"threads_per_sm": 1024, "blocks_per_sm": 16, "shared_per_block_optin": 65536, "shared_per_sm": 65536}
_CDNA = {"warp": 64, "shared_per_block": 65536, "shared_per_sm": 65536}
_DEVICES = {
    device.name: device
    for device in (
        Device("Tesla V100-SXM2-16GB", "nvidia", (7, 0), 16_945_512_448, 80, **_VOLTA),
        Device("Tesla V100-SXM2-32GB", "nvidia", (7, 0), 34_079_637_504, 80, **_VOLTA),
        Device("Tesla T4", "nvidia", (7, 5), 15_828_320_256, 40, **_TURING),
        Device("NVIDIA A100-PCIE-40GB", "nvidia", (8, 0), 42_346_610_688, 108, **_AMPERE),
        Device("NVIDIA H100 80GB HBM3", "nvidia", (9, 0), 85_018_279_936, 132, **_HOPPER),
        Device("AMD Instinct MI300X", "amd", (9, 4), 206_141_652_992, 304, **_CDNA),
    )
}


def device_named(
    name: str,
    *,
    vendor: str | None = None,
    capability: tuple[int, int] | None = None,
    memory_bytes: int | None = None,
    sms: int | None = None,
) -> Device:
    """Return the facts of a device: of a known name, else of a middling GPU of that maker; what is given overrides."""
    device = _DEVICES.get(name)
    if device is None:
        maker = vendor or ("amd" if _AMD.search(name) else "nvidia")
        family = _CDNA if maker == "amd" else {}
        device = Device(name, maker, (8, 0), 16 << 30, 80, **family)
    return replace(
        device,
        vendor=vendor or device.vendor,
        capability=capability or device.capability,
        memory_bytes=memory_bytes or device.memory_bytes,
        sms=sms or device.sms,
    )
