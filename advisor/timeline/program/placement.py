"""Devices of a program: what the one that works can do, and a model that runs on the CPU beside an idle one."""

from __future__ import annotations

import numpy as np

from advisor import hardware
from advisor.intervals import Ints, distinct, union
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.context import Context
from advisor.timeline.kernel_names import least_capability
from advisor.timeline.recording import KERNEL

# The work that makes a model: where these run on the CPU, the model does. Not their wrappers, which run beside a GPU too.
_MODEL = regex(
    r"^aten::(?:b?addb?mm|baddbmm|bmm|mm|mkldnn_convolution|mkl_linear|_mkl_linear|mkldnn_linear|mkldnn_rnn_layer|thnn_conv2d"
    r"|_slow_conv2d_forward|slow_conv3d_forward|mkldnn_convolution_backward|convolution_backward"
    r"|_scaled_dot_product_flash_attention_for_cpu|native_batch_norm|native_layer_norm)$|^mkldnn::|^onednn::|^cpp_fused"
)
_MOST_LAUNCHING = 0.1
"""Share of their time in which such operators may launch GPU work, for a model that runs on the CPU."""
_LEAST_SHARE = 0.3
"""Share of the window that they must take: with less, the model is not what the program spends its time on."""
_CALLS = regex(
    r"^(?:cuda|hip)(?:GetDeviceCount|GetDevice|DeviceSynchronize|StreamSynchronize|Malloc|Memcpy|Free|EventRecord)"
)


def proven_capability(context: Context) -> float | None:
    """The compute capability that the names of the kernels prove, for traces without device properties."""
    if context.recording.vendor != "nvidia":
        return None
    return max((least_capability(context.names[code]) for code in context.kernel_names), default=0.0) or None


def device(context: Context) -> tuple[str | None, str, hardware.Abilities]:
    """Name, maker and abilities of the device that works; of the first that is there where none does."""
    recording = context.recording
    listed = recording.metadata.devices
    entry = recording.device_properties(context.device) if recording.devices else next(iter(listed), None)
    if not recording.devices and entry is None:
        return None, "cpu" if context.cpu_program else "unknown", hardware.Abilities(None, None, None, None)
    name = hardware.full_name(entry.name, entry.sms, entry.memory_bytes) if entry else None
    known = entry.capability if entry else None
    vendor = recording.vendor if recording.devices else hardware.vendor(name, cuda=bool(listed))
    proven = proven_capability(context) if recording.devices else None
    return name, vendor, hardware.abilities(vendor, name, known, proven)


def model_on_cpu(context: Context) -> bool:
    """Tell whether the model runs on the CPU of a machine whose GPU was there to use, and did next to nothing.

    The trace must show the GPU (its properties, or calls of its runtime) and operators that only the CPU computes with.
    """
    recording = context.recording
    host, work = recording.host, recording.work
    calls = recording.tables.get("runtime")
    there = bool(recording.metadata.devices) or (
        calls is not None and any(_CALLS.match(context.names[code]) for code in distinct(calls["name"]).tolist())
    )
    if not there or not host.size or recording.recorded.truncated:
        return False
    if not len(work) and not context.cpu_program:
        return False
    model = np.array([_MODEL.match(name) is not None for name in context.names], np.bool_)
    nodes = np.flatnonzero(model[host.name] & (host.group == OP))
    total = union(host.start[nodes], host.end[nodes]).length
    low, high = recording.window if not len(work) else _host_extent(context)
    if not len(nodes) or total < _LEAST_SHARE * (high - low):
        return False
    kernels = work.launch[(work.kind == KERNEL) & (work.launch >= 0)] if len(work) else np.zeros(0, np.int64)
    if len(work) and not len(kernels) and (work.kind == KERNEL).any():
        return False  # work that nothing links may be the model's
    flags = np.zeros(host.size, np.bool_)
    flags[nodes] = True
    owners = np.where(flags[kernels], kernels, host.above(kernels, flags)) if len(kernels) else kernels
    launching = distinct(owners[owners >= 0])
    launched = union(host.start[launching], host.end[launching]).length
    return launched <= _MOST_LAUNCHING * total


def _host_extent(context: Context) -> tuple[int, int]:
    """From the first operator's start to the last one's end."""
    host = context.recording.host
    ops: Ints = np.flatnonzero(host.group == OP)
    return (int(host.start[ops].min()), int(host.end[ops].max())) if len(ops) else (0, 0)
