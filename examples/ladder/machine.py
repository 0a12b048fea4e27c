"""The machine as torch sees it. Run as a module, in a process of its own, for the one that analyzes must not import torch."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from advisor.record.environment import usable_cores

_CPUINFO = Path("/proc/cpuinfo")


class Machine(Struct, frozen=True, kw_only=True):
    """The device and what is around it. ``bf16``: its processors multiply bfloat16; ``compiler``: torch.compile has one."""

    device: str
    name: str
    cores: int
    memory_bytes: int | None
    torch: str
    python: str
    bf16: bool
    compiler: bool


def look(device: str | None) -> Machine | str:
    """Describe the machine, or say why the ladder cannot be climbed on *device*; None takes a GPU if there is one."""
    try:
        import torch
    except ImportError as error:
        return f"torch cannot be imported: {error}"
    try:
        import PIL  # noqa: F401
    except ImportError:
        return "the ladder's pictures need Pillow, which is not installed here: pip install pillow"
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        return "--device cuda: torch sees no GPU here. Take --device cpu, or install a build of torch for your GPU."
    kind = device or ("cuda" if has_gpu else "cpu")
    name = cpuinfo("model name") or platform.processor() or platform.machine() or "unknown processor"
    memory = None
    if kind == "cuda":
        properties = torch.cuda.get_device_properties(0)
        name, memory = properties.name, properties.total_memory
    return Machine(
        device=kind,
        name=name,
        cores=usable_cores() or 1,
        memory_bytes=memory,
        torch=str(torch.__version__),
        python=platform.python_version(),
        bf16=bool({"amx_bf16", "avx512_bf16"} & set(cpuinfo("flags").split())),
        compiler=any(shutil.which(name) for name in (os.environ.get("CXX") or "c++", "g++", "clang++", "cl")),
    )


def cpuinfo(field: str) -> str:
    """Read a field of the first processor in Linux's list; empty elsewhere."""
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == field), "")


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(look(sys.argv[1] if len(sys.argv) > 1 else None)).decode())
