"""Metadata in the root of the file, by an allowlist. Environment variables, host and user names stay behind."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from advisor.reading import recorded_settings
from advisor.reading.coerce import flag, integer, positive, word
from advisor.reading.program_settings import KEY, Recorded

Loose = Any


class Device(Struct, frozen=True):
    """One entry of deviceProperties: a visible device, used or not."""

    id: int
    name: str | None
    memory_bytes: int | None
    capability: float | None
    sms: int | None


class Metadata(Struct, frozen=True):
    """The allowlisted facts of the root object; ``None`` where the file does not say."""

    devices: tuple[Device, ...] = ()
    base_ns: int = 0
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    torch: str | None = None
    record_shapes: bool | None = None
    profile_memory: bool | None = None
    with_stack: bool | None = None
    with_modules: bool | None = None
    cuda_runtime: int | None = None
    hip: bool = False
    built: bool = False
    recorded: Recorded | None = None
    """The program's settings, where ``advisor record`` wrote them. Paths are as written: frames clean them."""
    format: str = "json"
    """The format of the file: json, pftrace, nsys, rocprof."""
    accelerator: str | None = None
    """An accelerator that is neither CUDA's nor ROCm's, by the categories of its events: MTIA, HPU, XPU, PrivateUse1."""


class _Root(Struct):
    deviceProperties: Loose = None
    distributedInfo: Loose = None
    baseTimeNanoseconds: Loose = None
    record_shapes: Loose = None
    profile_memory: Loose = None
    with_stack: Loose = None
    with_modules: Loose = None
    cuda_runtime_version: Loose = None
    hip_runtime_version: Loose = None
    roctracer_version: Loose = None
    pytorch_version: Loose = None
    torch_version: Loose = None
    built: Loose = None
    settings: Loose = field(default=None, name=KEY)


def parse(text: bytes) -> Metadata | None:
    """The metadata in *text*, a JSON object without its events; None if it is not JSON."""
    try:
        root = msgspec.json.decode(text, type=_Root)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    info = root.distributedInfo
    if isinstance(info, list):
        info = info[0] if len(info) == 1 else None
    info = info if isinstance(info, dict) else {}
    listed = root.deviceProperties if isinstance(root.deviceProperties, list) else []
    devices = [_device(entry, at) for at, entry in enumerate(listed[:4096]) if isinstance(entry, dict)]
    version = root.torch_version or root.pytorch_version
    settings = recorded_settings.read(root.settings)
    return Metadata(
        devices=tuple(devices),
        base_ns=integer(root.baseTimeNanoseconds) or 0,
        rank=integer(info.get("rank")),
        world_size=integer(info.get("world_size")),
        backend=word(info.get("backend")),
        torch=word(version) or (settings.torch if settings else None),
        record_shapes=flag(root.record_shapes),
        profile_memory=flag(root.profile_memory),
        with_stack=flag(root.with_stack),
        with_modules=flag(root.with_modules),
        cuda_runtime=integer(root.cuda_runtime_version),
        hip=root.hip_runtime_version is not None or root.roctracer_version is not None,
        built=root.built is not None,
        recorded=settings,
    )


def _device(entry: dict[str, Any], at: int) -> Device:
    major, minor = integer(entry.get("computeMajor")), integer(entry.get("computeMinor"))
    known = major is not None and 0 <= major < 100 and minor is not None and 0 <= minor < 10
    number = integer(entry.get("id"))
    return Device(
        id=at if number is None else number,
        name=word(entry.get("name"), 80),
        memory_bytes=positive(entry.get("totalGlobalMem")),
        capability=round((major or 0) + (minor or 0) / 10, 1) if known else None,
        sms=positive(entry.get("numSms")),
    )
