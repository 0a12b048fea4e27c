"""The states of the program, in order: each differs from the one before it by one change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs


class Settings(Struct, frozen=True, kw_only=True):
    """The settings in which the states differ. ``threads`` None leaves torch its own choice."""

    device: str
    batch: int = 32
    workers: int = 0
    threads: int | None = None
    pin: bool = False
    as_bytes: bool = False
    """Pictures reach the device as uint8, and become floats there."""
    draft: bool = False
    """JPEGs are decoded at the smallest scale that the network's input allows."""
    set_to_none: bool = True
    channels_last: bool = False
    autocast: str = ""
    """The type of ``torch.autocast``; empty: none."""
    compiled: bool = False
    stored: int = 32
    """Edge of a stored picture, in pixels. Up to 32 pictures are arrays, as in the article; larger ones are JPEGs."""
    size: int = 224
    """Edge of the network's input, in pixels."""
    width: int = 64
    """Channels of the network's first layer; 64 is a ResNet-18."""


class Task(Struct, frozen=True, kw_only=True):
    """One run of the program: its state, the steps that warm up, and those that are timed after them."""

    settings: Settings
    warmup: int
    steps: int


class Measurement(Struct, frozen=True, kw_only=True):
    """The program's report on its run. ``peak_memory_bytes`` is None where the system does not tell."""

    laps_ms: list[float]
    peak_memory_bytes: int | None
    network: str
    parameters: int
    threads: int


class Article(Struct, frozen=True, kw_only=True):
    """The article's figures of a state, on a V100; None where it gives none. Shares 0 to 1.

    ``from_per_s`` is the rate of the article's state before, which the change started from.
    """

    step_ms: float | None = None
    samples_per_s: float | None = None
    from_per_s: float | None = None
    gpu_utilization: float | None = None
    tensor_core_share: float | None = None
    peak_memory_gb: float | None = None

    @property
    def became(self) -> float | None:
        """The speedup of the article's program by this change."""
        return self.samples_per_s / self.from_per_s if self.samples_per_s and self.from_per_s else None


class State(Struct, frozen=True):
    """A state, by the change that leads to it from the one before.

    ``rules`` are those of which one, firing on the state before, advises the change; none: no rule speaks of it. ``needs``
    names a feature of the machine (``bf16``, ``compiler``); ``article`` is the state of the article with the same change.
    """

    name: str
    title: str
    change: Mapping[str, Any] = {}
    rules: tuple[str, ...] = ()
    article: Article | None = None
    needs: str = ""


def change(settings: Settings, state: State) -> Settings:
    """Apply the state's change to the settings."""
    return structs.replace(settings, **state.change)


# The article's first two rates follow from 80 and 37 ms for 32 images.
_BASELINE = Article(step_ms=80.0, samples_per_s=400.0, gpu_utilization=0.3165)
_WORKERS = Article(step_ms=37.0, samples_per_s=865.0, from_per_s=400.0, gpu_utilization=0.7281)
_PINNED = Article(samples_per_s=1200.0, from_per_s=865.0, gpu_utilization=0.9237)
_BATCH = Article(step_ms=324.0, samples_per_s=1584.0, from_per_s=1200.0, peak_memory_gb=11.3)
_BYTES = Article(samples_per_s=1670.0, from_per_s=1584.0, gpu_utilization=0.9751)
_ZEROING = Article(samples_per_s=1670.0, from_per_s=1670.0, tensor_core_share=0.0)
_AMP = Article(samples_per_s=2477.0, from_per_s=1670.0, tensor_core_share=0.263)
_COMPILED = Article(samples_per_s=3268.0, from_per_s=2477.0)

_START = State("baseline", "as written", article=_BASELINE)


def _compile(*rules: str) -> State:
    return State("compile", "torch.compile", {"compiled": True}, rules, _COMPILED, needs="compiler")


def on_cuda(cores: int) -> tuple[Settings, list[State]]:
    """Return the article's own states, for a GPU. It loads with 8 workers; fewer *cores* get as many workers."""
    workers = min(8, cores)
    tensor_cores = ("precision/no-tensor-cores", "precision/fp32-with-tf32")
    zeroing = ("gradient/zeroing-memset", "gradient/zeroing-fill")
    loader = ("data-loading/single-process-loader", "data-loading/decoded-again")
    return Settings(device="cuda", set_to_none=False), [
        _START,
        State("workers", _count(workers, "worker"), {"workers": workers}, loader, _WORKERS),
        State("pinned", "pinned, non_blocking", {"pin": True}, ("transfer/pageable-copy",), _PINNED),
        State("batch512", "batch 512", {"batch": 512}, ("memory/low-peak",), _BATCH),
        State("uint8", "uint8 to the GPU", {"as_bytes": True}, ("transfer/large-copy",), _BYTES),
        State("set_to_none", "set_to_none", {"set_to_none": True}, zeroing, _ZEROING),
        State("amp", "autocast, batch 1024", {"autocast": "float16", "batch": 1024}, tensor_cores, _AMP),
        _compile("kernels/elementwise-chain", "kernels/normalization-chain"),
    ]


def on_cpu(cores: int) -> tuple[Settings, list[State]]:
    """Return states that mean something on a CPU of so many *cores*, in the order in which its profiles ask for them.

    The pictures are JPEGs of 320 pixels that become 64, and the network is a quarter as wide: a CPU then computes about as
    long as it loads, as the article's GPU did. Half of the cores load, the others compute.
    """
    workers = max(1, min(8, cores // 2))
    threads = max(1, cores - workers)
    shared = f"{_count(workers, 'worker')}, {_count(threads, 'thread')}"
    loader, operator = ("cpu/loader-wait", "data-loading/decoded-again"), ("cpu/hot-operator",)
    return Settings(device="cpu", stored=320, size=64, width=16), [
        _START,
        State("workers", shared, {"workers": workers, "threads": threads}, loader, _WORKERS),
        State("channels_last", "channels_last", {"channels_last": True}, operator),
        State("bf16", "autocast to bfloat16", {"autocast": "bfloat16"}, operator, _AMP, needs="bf16"),
        State("draft", "JPEGs decoded small", {"draft": True}, loader),
        _compile("cpu/hot-operator", "cpu/tiny-operators"),
    ]


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("s" if number != 1 else "")
