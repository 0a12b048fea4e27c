"""What ``advisor record`` writes into a trace's metadata: the settings that advice needs and no trace holds.

Written by :mod:`advisor.record` under the key :data:`KEY` of the trace's root, read leniently by
:mod:`advisor.reading.metadata`. Places are ``file`` and ``line`` of the user's own call, with home directories cut off.
"""

from __future__ import annotations

from msgspec import Struct

KEY = "advisor"
VERSION = 1
STACKS_APART = "second pass"
"""``Recorded.stacks`` where the stacks come from a pass of their own, and slowed none of the steps in the trace."""


class Loader(Struct, frozen=True, omit_defaults=True):
    """A ``DataLoader`` that was iterated while steps were recorded."""

    workers: int
    pin_memory: bool = False
    prefetch: int | None = None
    persistent: bool = False
    batch_size: int | None = None
    file: str = ""
    line: int = 0


class Optimizer(Struct, frozen=True, omit_defaults=True):
    """An optimizer that took a step. ``tensors`` is how many parameter tensors it updates; None: left to torch."""

    kind: str
    foreach: bool | None = None
    fused: bool | None = None
    tensors: int = 0
    file: str = ""
    line: int = 0


class Autocast(Struct, frozen=True, omit_defaults=True):
    """An autocast region that was entered: device type and dtype, such as ``cuda`` and ``bfloat16``."""

    device: str
    dtype: str
    file: str = ""
    line: int = 0


class Compiled(Struct, frozen=True, omit_defaults=True):
    """A call of ``torch.compile``."""

    mode: str = "default"
    dynamic: bool | None = None
    fullgraph: bool = False
    backend: str = "inductor"
    file: str = ""
    line: int = 0


class Recorded(Struct, frozen=True, omit_defaults=True):
    """The settings of one recording. ``None`` where the recorder could not tell.

    ``cores`` are those that the process may use (by affinity and quota, not the machine's), ``threads`` what
    ``torch.get_num_threads()`` says in the training process. Lists are empty where there was nothing of the kind.
    """

    version: int = VERSION
    recorder: str = ""
    torch: str | None = None
    cuda: str | None = None
    driver: str | None = None
    cores: int | None = None
    threads: int | None = None
    loaders: tuple[Loader, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    autocast: tuple[Autocast, ...] = ()
    compiled: tuple[Compiled, ...] = ()
    tf32_matmul: bool | None = None
    tf32_cudnn: bool | None = None
    cudnn_benchmark: bool | None = None
    deterministic: bool | None = None
    steps_by: str | None = None
    backwards_per_step: float | None = None
    unprofiled_step_ms: tuple[float, ...] = ()
    stacks: str | None = None


NAMES = (
    "num_workers",
    "pin_memory",
    "prefetch_factor",
    "persistent_workers",
    "batch_size",
    "foreach",
    "fused",
    "mode",
    "dynamic",
    "fullgraph",
    "torch.autocast",
    "CPU cores",
    "torch.get_num_threads()",
    "torch.backends.cuda.matmul.allow_tf32",
    "torch.backends.cudnn.allow_tf32",
    "torch.backends.cudnn.benchmark",
    "deterministic algorithms",
    "backward passes per optimizer step",
)
"""What settings are called: by their argument or attribute, as a program writes it, where there is one."""
