"""One run of a program without a profiler: its steps, its first losses and outputs, and what it writes.

In a run for checking what is random repeats: samples are seeded by their index, dropout by the number of the step, and compiled
code draws what eager code draws. Where dropout would draw for tensors of other sizes, it is switched off.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from advisor import files
from advisor.record.measured import ANY, Figure, Followed, Measured
from advisor.record.steps import ITERATIONS, Steps

SEED = 20_24
MOST_FIGURES = 16
"""Losses or outputs that are kept of a run for checking."""
_SHOWN = 16
"""Numbers of an output that are kept beside its mean and size."""
_MOST_FILES = 50
_FEWEST, _LONG = 6, 5.0
"""Steps that are enough where they take so many times the seconds that are asked for."""
_RANKS = 2
"""Times the least count of steps that several ranks take."""
_COMPILING = 20.0
"""Times the seconds that are asked for after which a program that still compiles is not waited for any more."""
_SUM, _EVERY_S = 5000, 0.02
"""Numbers that are added to see how fast the machine is now, a fifth of a millisecond, and how often that is done at most."""


class _Stamp(NamedTuple):
    """A boundary of steps: what the clock says, the process's seconds of processor time, and what was compiled until then.

    ``sum_s`` is how long the numbers took that were added behind it, ``sum_cpu`` the processor time of that; 0 where none were.
    """

    time: Any
    cpu: float
    compiled: int
    sum_s: float = 0.0
    sum_cpu: float = 0.0


def most_of_ranks(most: int, least: int) -> int:
    """Return the steps after which each of several ranks ends."""
    return min(most, _RANKS * least)


def of_rank(out: Path, rank: int) -> Path:
    """Return the file of one of several ranks."""
    return out.with_suffix(f".rank{rank}.json")


class Run:
    """One run: what it listens to, and what it found. Its steps end the program once there are enough.

    Steps that lie behind a training are those since an optimizer stepped last; of several such stretches, the one of most steps.
    """

    def __init__(
        self, check: bool, most: int, least: int, seconds: float, followed: Followed = ANY, *, dropout: bool = True
    ) -> None:
        import torch

        self.pid = os.getpid()
        self.ended = False
        self.left_to_ranks = False
        """True once ranks that the program starts are measured in its place."""
        self.main: tuple[str, ...] = ()
        """File of a module that is run as the program: it is gone from the modules at the end."""
        self._torch = torch
        self._dropout = dropout
        self._check, self._most, self._least, self._seconds = check, most, least, seconds
        self._figures: dict[str, list[tuple[int, Any]]] = {"loss": [], "output": []}
        self._stamps: list[_Stamp] = []
        self._longest: list[_Stamp] = []
        self._depth = self._updates = 0
        self._begun = self._first = self._settled = time.perf_counter()
        self._summed = 0.0
        """When the machine's speed was looked at last."""

        from advisor.record.hooks import Hooks
        from advisor.record.load import working_clock
        from advisor.record.settings import Settings

        self._working = working_clock()
        self._followed = followed
        self._settings = Settings()
        self._steps = self._sought()
        self._hooks = Hooks(self._settings, self._steps, loop=followed.loop)
        self._hooks.recording = True  # so that loaders and autocast regions are noted

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Seed, and listen while the block runs."""
        from advisor.record import places

        _seed(SEED)
        places.begin()
        self._hooks.install()
        backward = self._torch.autograd.backward
        handles: list[Any] = []
        if self._check:
            self._torch.autograd.backward = self._keeping_losses(backward)
            handles = self._repeatable()
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            if self._check:
                self._torch.autograd.backward = backward
            self._hooks.remove()

    @property
    def idle(self) -> bool:
        """True until a step was found."""
        return not self._steps.stamps and not self._stamps and not self._longest

    def leave(self, out: Path, error: str, outside: Sequence[str]) -> None:
        """Write what was found."""
        files.write(out, msgspec.json.encode(self.measured(error, outside)))

    def measured(self, error: str, outside: Sequence[str]) -> Measured:
        """Return what was found, read back from the device."""
        from advisor.record.environment import usable_cores
        from advisor.record.stamps import milliseconds

        stamps = max(self._all_stamps, self._longest, key=len)
        wall = milliseconds([stamp.time for stamp in stamps])
        behind = [1e3 * stamp.sum_s for stamp in stamps]
        paired = list(pairwise(stamps))
        summary = self._settings.summary()
        return Measured(
            error=error,
            ended=self.ended,
            unit=self._steps.unit,
            step_ms=tuple(round(ms - summed, 4) for ms, summed in zip(wall, behind, strict=False)),
            cpu_ms=tuple(round(1e3 * (after.cpu - before.cpu - before.sum_cpu), 4) for before, after in paired),
            compiled=tuple(at for at, (before, after) in enumerate(paired) if before.compiled != after.compiled),
            sum_ms=_beside(behind) if len(wall) == len(paired) else (),
            losses=tuple(map(_figure, self._figures["loss"])),
            outputs=tuple(map(_figure, self._figures["output"])),
            autocast=tuple(sorted({region.dtype for region in summary["autocast"]})),
            outside=tuple(outside),
            loaded=tuple(sorted({*_loaded(), *self.main})),
            torch=str(self._torch.__version__),
            device=_device(self._torch),
            cores=usable_cores(),
            seconds=round(time.perf_counter() - self._begun, 3),
        )

    # ---- steps

    @property
    def _all_stamps(self) -> list[_Stamp]:
        """Stamps of all boundaries: the first that is heard of here is the last of those before it."""
        before = self._steps.stamps
        return [*before, *(self._stamps[1:] if before else self._stamps)]

    def _sought(self) -> Steps[_Stamp]:
        followed = self._followed
        trained = self._trained if followed.behind else None
        return Steps(
            followed.skip,
            self._boundary,
            _stamp,
            followed.unit,
            trained=trained,
            working=self._working,
            fetched=lambda: self._hooks.waited,
            burst=followed.burst,
            # A device works behind the host, whose clock does not tell bursts then.
            busy=lambda: self._hooks.on_device and followed.unit != ITERATIONS,
        )

    def _trained(self) -> None:
        """Look for steps anew: what came before an optimizer's step is not what was recorded."""
        if self._steps.first_at is None:
            return  # nothing came
        self._longest = max(self._all_stamps, self._longest, key=len)
        self._stamps = []
        self._steps = self._sought()
        self._hooks.begin_anew(self._steps)

    def _boundary(self) -> None:
        stamp, now = _stamp(), time.perf_counter()
        if not self._stamps:
            self._first = self._settled = now  # the steps before it are few
        elif stamp.compiled != self._stamps[-1].compiled and now - self._first < _COMPILING * self._seconds:
            self._settled = now  # seconds of steps count from behind the last that compiled
        if isinstance(stamp.time, float) and 0 < self._seconds < float("inf") and now - self._summed > _EVERY_S:
            self._summed = now
            stamp = _summed(stamp)
        self._stamps.append(stamp)
        steps = len(self._all_stamps) - 1
        seconds = now - self._settled
        enough = steps >= self._least and seconds >= self._seconds
        long = 0 < self._seconds < float("inf") and steps >= _FEWEST and seconds >= _LONG * self._seconds
        if steps >= self._most or enough or long:
            from advisor.record.leaving import leave

            self.ended = True
            leave()

    # ---- what is computed

    def _listens(self) -> bool:
        return os.getpid() == self.pid and threading.current_thread() is threading.main_thread()

    def _keep(self, kind: str, value: Any) -> None:
        kept = self._figures[kind]
        if len(kept) < MOST_FIGURES:
            kept.append((self._updates, value))

    def _keeping_losses(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(tensors: Any, *args: Any, **options: Any) -> Any:
            if self._listens() and not self._torch.compiler.is_compiling():
                self._keep("loss", _copies(self._torch, tensors))
            return original(tensors, *args, **options)

        return backward

    def _repeatable(self) -> list[Any]:
        """Make what is random repeat, whatever draws first; returns the hooks to remove."""
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
        from torch.optim.optimizer import register_optimizer_step_post_hook

        _seed_samples()
        if not self._dropout:
            _switch_dropout_off(self._torch)
        if (inductor := getattr(self._torch, "_inductor", None)) is not None:
            inductor.config.fallback_random = True
        else:
            os.environ.setdefault("TORCHINDUCTOR_FALLBACK_RANDOM", "1")
        return [
            register_module_forward_pre_hook(self._call_begins),
            register_module_forward_hook(self._call_ends, always_call=True),
            register_optimizer_step_post_hook(self._updated),
        ]

    def _call_begins(self, _module: Any, _inputs: Any) -> None:
        if not self._torch.compiler.is_compiling() and self._listens():
            self._depth += 1

    def _call_ends(self, _module: Any, _inputs: Any, output: Any) -> None:
        if not self._torch.compiler.is_compiling() and self._listens():
            self._depth = max(self._depth - 1, 0)
            if not self._depth:
                self._keep("output", _copies(self._torch, output))

    def _updated(self, _optimizer: Any, _args: Any, _options: Any) -> None:
        if self._listens():
            self._updates += 1
            _seed(SEED + self._updates)


# ---- figures


def _copies(torch: Any, value: Any, most: int = 8) -> list[Any]:
    """Copy the tensors in *value*, on their device: what holds them may be written again."""
    found: list[Any] = []
    waiting = [value]
    while waiting and len(found) < most:
        part = waiting.pop(0)
        if isinstance(part, torch.Tensor):
            if part.is_floating_point() or part.dtype in (torch.int64, torch.int32, torch.bool):
                found.append(part.detach().clone())
        elif isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)
    return found


def _figure(kept: tuple[int, Any]) -> Figure:
    """Read back what was copied behind so many updates: of each tensor its size, mean, mean size, and some of its numbers."""
    numbers: list[float] = []
    dtypes = set()
    for tensor in kept[1]:
        dtypes.add(str(tensor.dtype).removeprefix("torch."))
        flat = tensor.flatten().double().cpu()
        numbers.append(float(flat.numel()))
        if flat.numel() > 1:
            numbers += [float(flat.mean()), float(flat.abs().mean())]
        stride = max(1, flat.numel() // _SHOWN)
        numbers += [float(number) for number in flat[::stride][:_SHOWN]]
    return Figure(numbers=tuple(numbers), dtypes=tuple(sorted(dtypes)), updates=kept[0])


def _stamp() -> _Stamp:
    from advisor.record.stamps import clock

    return _Stamp(clock(), time.process_time(), _compilations())


def _summed(stamp: _Stamp) -> _Stamp:
    """Return the stamp with what some additions take now: on a machine that others share twice as long as a moment before."""
    begun, ran, total = time.perf_counter(), time.thread_time(), 0
    for number in range(_SUM):
        total += number
    return stamp._replace(sum_s=time.perf_counter() - begun, sum_cpu=time.thread_time() - ran)


def _beside(behind: Sequence[float]) -> tuple[float, ...]:
    """Return for each step the ms of the sums nearest to its begin and its end, on average; empty where none was taken.

    *behind* are those behind each boundary; 0 for none.
    """
    known = [at for at, ms in enumerate(behind) if ms > 0]
    if not known:
        return ()
    nearest = [behind[min(known, key=lambda one: abs(one - at))] for at in range(len(behind))]
    return tuple(round((before + after) / 2, 5) for before, after in pairwise(nearest))


def _compilations() -> int:
    """Return how often something was compiled so far: a forward pass, or what of its backward pass is compiled when it runs."""
    times = getattr(sys.modules.get("torch._dynamo.utils"), "compilation_time_metrics", None) or {}
    return sum(map(len, times.values()))


def _device(torch: Any) -> str | None:
    return torch.cuda.get_device_name() if torch.cuda.is_initialized() else None


# ---- what is random


def _seed(number: int) -> None:
    random.seed(number)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(number % (1 << 32))
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(number)


def _switch_dropout_off(torch: Any) -> None:
    """Let the functions behind torch's layers drop nothing; recurrent layers of several levels still do."""
    functional = torch.nn.functional

    def all_kept(input: Any, *_args: Any, **_options: Any) -> Any:
        return input

    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        setattr(functional, name, all_kept)
    attention = functional.scaled_dot_product_attention

    def undropped(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **more: Any
    ) -> Any:
        del dropout_p
        return attention(query, key, value, attn_mask, 0.0, *args, **more)

    functional.scaled_dot_product_attention = undropped


class _Seeded:
    """A dataset that seeds each sample by its index, in whichever process it is read."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def __getitem__(self, index: Any) -> Any:
        _seed(_number(index))
        return self._dataset[index]


class _SeededBatches(_Seeded):
    """The same of a dataset that returns several samples at once."""

    def __getitems__(self, indices: Any) -> Any:
        _seed(_number(tuple(indices)))
        return self._dataset.__getitems__(indices)


def _number(index: Any) -> int:
    import zlib

    return SEED + zlib.crc32(repr(index).encode())


def _seed_samples() -> None:
    """Let datasets of loaders seed each sample, and leave the generators of the training process as they were."""
    import torch
    from torch.utils.data._utils import fetch

    original = fetch._MapDatasetFetcher.fetch

    def seeded(fetcher: Any, index: Any) -> Any:
        if not isinstance(fetcher.dataset, _Seeded):
            several = getattr(fetcher.dataset, "__getitems__", None)
            fetcher.dataset = (_SeededBatches if several else _Seeded)(fetcher.dataset)
        numpy = sys.modules.get("numpy")
        states = random.getstate(), torch.get_rng_state(), numpy.random.get_state() if numpy else None
        try:
            return original(fetcher, index)
        finally:
            random.setstate(states[0])
            torch.set_rng_state(states[1])
            if numpy:
                numpy.random.set_state(states[2])

    fetch._MapDatasetFetcher.fetch = seeded


# ---- the process


def watch_files(root: Path, out: Path) -> list[str]:
    """Return a list that grows by the files outside *root* that this process opens to write."""
    import tempfile

    inside = tuple(os.path.realpath(folder) + os.sep for folder in (root, tempfile.gettempdir(), "/dev", "/proc"))
    own = os.path.realpath(out)
    found: list[str] = []
    process = os.getpid()

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or len(found) >= _MOST_FILES or os.getpid() != process:
            return
        path, mode, flags = args
        writes = any(sign in mode for sign in "wax+") if isinstance(mode, str) else bool(flags & _WRITING)
        if not writes or not isinstance(path, str | bytes | os.PathLike):
            return
        full = os.path.realpath(os.fsdecode(path))
        cached = f"{os.sep}__pycache__{os.sep}" in full or ".advisor-" in full
        if not full.startswith(inside) and full != own and not cached and full not in found:
            found.append(full)

    sys.addaudithook(audit)
    return found


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def _loaded() -> Iterator[str]:
    """Yield the files of the modules that were imported, libraries' left out."""
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and "site-packages" not in path and not path.startswith(sys.base_prefix):
            yield os.path.realpath(path)
