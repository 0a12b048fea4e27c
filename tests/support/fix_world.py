"""Surroundings that the reader of a fix has already: a model, its data and functions of their own, small, and on the CPU.

To add a name, put it into ``names``. ``DATA``, ``OF_RULE``, ``RANKS`` and ``USES`` are for rules that need other data, names of
their own, more ranks, or code that uses what their snippets define.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import io
import itertools
import logging
import math
import os
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
import torch.utils.cpp_extension
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, Subset
from torch.utils.data.distributed import DistributedSampler

BATCH, CLASSES = 2, 4
SAMPLES = 64  # enough for two batches of 32
RANKS = {
    "distributed/exposed-forward-communication": 16,
}
"""Ranks of a rule's world where one does not do: communication is then only pretended to."""


class Images(Dataset[Any]):
    """Images and their classes."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if not 0 <= index < SAMPLES:
            raise IndexError(index)
        return self.sample(index), index % CLASSES

    def sample(self, index: int) -> torch.Tensor:
        return torch.full((3, 8, 8), index / SAMPLES)

    def length(self, index: int) -> int:
        return 3 + index % 5


class Vectors(Images):
    """Vectors and their classes."""

    def sample(self, index: int) -> torch.Tensor:
        return torch.full((3,), index / SAMPLES)


class Texts(Images):
    """Tokens, more or fewer of them, and their classes."""

    def sample(self, index: int) -> torch.Tensor:
        return torch.arange(self.length(index))


def pad_to_longest(samples: Any) -> tuple[torch.Tensor, torch.Tensor]:
    texts, classes = zip(*samples, strict=True)
    return nn.utils.rnn.pad_sequence(texts, batch_first=True), torch.tensor(classes)


class Mean(nn.Module):
    """The mean over the words of a text."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)


class Net(nn.Module):
    """An encoder for the kind of data, and two linear layers."""

    data: type[Images] = Images

    def __init__(self) -> None:
        super().__init__()
        encoders: dict[type[Images], Callable[[], list[nn.Module]]] = {
            Images: lambda: [nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()],
            Vectors: lambda: [nn.Linear(3, 16), nn.ReLU()],
            Texts: lambda: [nn.Embedding(16, 16), Mean()],
        }
        self.encoder = nn.Sequential(*encoders[self.data]())
        self.trunk = self.encoder
        self.body = nn.Linear(16, 16)
        self.head = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(F.relu(self.body(self.encoder(x))))
        return out


def uneven(_scope: Any) -> dict[str, Any]:
    """Rows of unlike length, and what a rank's sampler knows."""
    rows = [torch.arange(1 + number % 7) for number in range(64)]
    pad = functools.partial(nn.utils.rnn.pad_sequence, batch_first=True)
    return {"rows": rows, "pad": pad, "random": random, "rank": 0, "world_size": 2, "epoch": 0}


def writer(model: nn.Module) -> nn.Module:
    """A language model as far as a fix calls it."""
    model.generate = lambda **batch: batch["input_ids"]  # type: ignore[assignment]
    return model


class Language(nn.Module):
    """A language model of sixteen words, with a cache where it is given one, as far as a fix calls it."""

    def forward(self, ids: torch.Tensor, *cache: Any) -> Any:
        scores = F.one_hot(ids % 16, 16).float()
        return (scores, ids) if cache else scores

    def generate(self, *, input_ids: torch.Tensor, max_new_tokens: int, **options: Any) -> torch.Tensor:
        assert set(options) <= {"use_cache", "cache_implementation"}
        return input_ids.new_zeros(len(input_ids), max_new_tokens)


class Decoder(nn.Module):
    """A decoder of one layer with a cache, which returns keys and values beside its scores, as far as a fix calls it."""

    config = SimpleNamespace(describe=lambda: "small")

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(16, 8), nn.Embedding(32, 8)

    def forward(
        self, input_ids: torch.Tensor, cache: Any = None, *, past_key_values: Any = None, use_cache: bool = False
    ) -> Any:
        given = past_key_values.layers if past_key_values is not None else cache
        at, new = given[0][0].shape[2] if given else 0, input_ids.shape[1]
        x = (self.tokens(input_ids) + self.positions(torch.arange(at, at + new)))[:, None]
        keys = torch.cat([given[0][0], x], 2) if given else x
        values = torch.cat([given[0][1], x], 2) if given else x
        mask = torch.ones(new, at + new, dtype=torch.bool).tril(at)
        scores = F.scaled_dot_product_attention(x, keys, values, attn_mask=mask)[:, 0] @ self.tokens.weight.T
        if past_key_values is not None:
            past_key_values.layers = [(keys, values)]
        return scores, [(keys, values)]

    def generate(self, *, input_ids: torch.Tensor, attention_mask: torch.Tensor, **options: Any) -> torch.Tensor:
        assert options.pop("max_new_tokens") == 20
        assert attention_mask.shape == input_ids.shape
        cache = options.pop("past_key_values", None)
        at = cache.layers[0][0].shape[2] if cache is not None else 0
        scores, _ = self(input_ids[:, at:], past_key_values=cache)
        return torch.cat([input_ids, scores[:, -1:].argmax(-1)], 1)


class DynamicCache:
    """Keys and values of each layer, as transformers keeps them."""

    def __init__(self, config: Any) -> None:
        self.layers: list[tuple[torch.Tensor, torch.Tensor]] = []

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.layers = [(k.repeat_interleave(repeats, 0), v.repeat_interleave(repeats, 0)) for k, v in self.layers]


def prompted(scope: dict[str, Any]) -> dict[str, Any]:
    """Prompts that begin with the same five tokens, of three that differ; the first fix has them in one row without a batch."""
    prefix, rest = torch.arange(1, 6), torch.tensor([[6, 7, 8], [9, 3, 1]])
    ids = torch.cat([prefix.expand(2, -1), rest], 1)
    return {
        "model": Decoder().eval(), "DynamicCache": DynamicCache, "copy": copy, "prefix": prefix, "rest": rest, "ids": ids,
        "mask": torch.ones_like(ids),
    }  # fmt: skip


def generation(scope: dict[str, Any]) -> dict[str, Any]:
    """A program that generates: its model, its text, and what attention has of it."""
    return {
        "model": Language(), "ids": torch.zeros(1, 3, dtype=torch.long), "inputs": {"input_ids": torch.zeros(1, 3)},
        "logits": torch.rand(2, 1, 16), "scores": torch.rand(2, 16), "filled": 3,
        "query": scope["q"], **{name: torch.rand(1, 2, 1, 4) for name in ("key", "value")},
        **{name: torch.rand(1, 2, 16, 4) for name in ("keys", "values")},
    }  # fmt: skip


def names(rule: str, code: str) -> dict[str, Any]:
    """Return the names given to a snippet: imports that anyone would guess, a model, its data, and functions of one's own."""
    ranks = RANKS.get(rule, 1)
    if rule.startswith("distributed/") or re.search(
        "[Dd]istributed|dist\\.|mesh|fully_shard|no_sync|micro-batch", f"{rule} {code}"
    ):
        join(ranks, "init_process_group" in code)
    data = DATA.get(rule, Images)
    OwnNet = type("Net", (Net,), {"data": data})  # a class of its own, for a snippet may give it another forward
    model, dataset, collate = OwnNet(), data(), pad_to_longest if data is Texts else None
    loader = DataLoader(Subset(dataset, range(4 * BATCH)), batch_size=BATCH, collate_fn=collate)
    x, y = next(iter(loader))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion(model(x), y).backward()

    def train_step(*batch: Any) -> torch.Tensor:
        x, y = batch if len(batch) == 2 else batch[0]
        loss: torch.Tensor = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def train() -> None:
        for batch in loader:
            train_step(batch)

    def no_op(*args: Any, **named: Any) -> None: ...

    by_length = sorted(range(SAMPLES), key=dataset.length)
    modules = (contextlib, itertools, logging, math, os, random, threading, time, torch)
    scope = libraries() | {
        **{module.__name__: module for module in modules}, "F": F, "dist": dist, "nn": nn, "np": np,
        "DataLoader": DataLoader, "Dataset": Dataset, "checkpoint": checkpoint,
        "DistributedDataParallel": DistributedDataParallel, "DistributedSampler": DistributedSampler,
        "init_device_mesh": init_device_mesh, "fully_shard": fully_shard, "MixedPrecisionPolicy": MixedPrecisionPolicy,
        "parallelize_module": parallelize_module,
        "ProfilerActivity": ProfilerActivity, "profile": profile, "prof": prof(), "record_function": record_function,
        "schedule": schedule, "tensorboard_trace_handler": tensorboard_trace_handler,
        # the program
        "Model": OwnNet, "Net": OwnNet, "SimpleNamespace": SimpleNamespace,
        "model": model, "criterion": criterion, "optimizer": optimizer, "device": torch.device("cpu"),
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 10), "config": SimpleNamespace(describe=lambda: "small"),
        "dataset": dataset, "train_set": dataset, "loader": loader, "batch_size": BATCH, "pad_to_longest": pad_to_longest,
        "pad_to_multiple_of_64": pad_to_longest, "bucket_by_length": list(zip(by_length[::2], by_length[1::2], strict=True)),
        "batch": (x, y), "longest_batch": (x, y), "x": x, "y": y, "epoch": 0, "epochs": 2, "num_epochs": 2,
        "train": train, "run": train, "step": train_step, "train_step": train_step, "training": True, "p": 0.1,
        "logger": logging.getLogger("fixes"), "path": "checkpoint", "save_checkpoint": no_op,
        "save_checkpoint_in_background": no_op, "events": [], "history": [], "kept": [], "outputs": [],
        "predictions": [], "times": [], "total": 0.0,
        "rank": 0, "local_rank": 0, "world_size": ranks, "cores_of_gpu": [os.sched_getaffinity(0)],
        "plan": {"body": ColwiseParallel(), "head": RowwiseParallel()},
        # numbers and tensors
        "hidden": 8, "labels": [0, 1], "length": 6, "n": 4, "row": [1, 2, 3], "running": 0.0, "scale": 0.5,
        "texts": ["a", "b"], "values": [1.0, 2.0, 3.0, 4.0], "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2],
        "features": torch.rand(8, 4, requires_grad=True), "index": torch.tensor([0, 1, 1]), "losses": torch.ones(4),
        "mask": torch.ones(6, 6).tril(), "table": x.double().numpy(),
        "weights": torch.zeros(4), **{key: torch.rand(1, 2, 6, 4) for key in "qkv"},
    }  # fmt: skip
    scope |= engines(scope)
    return scope | OF_RULE.get(rule, lambda scope: {})(scope)


DATA: dict[str, type[Images]] = {
    "compile/recompilation": Texts,
    "cpu/python-time": Vectors,
    "kernels/for-loop-indexing": Vectors,
    "memory/fragmentation": Texts,
    "sync/scalar-readback": Vectors,
}
"""Data of the rules whose x is no batch of images."""


def _solve(field: Any, state: Any, times: Any) -> Any:
    """Solve by Euler's method, as torchdiffeq's functions are called."""
    states = [state]
    for begin, end in itertools.pairwise(times):
        states.append(states[-1] + (end - begin) * field(begin, states[-1]))
    return torch.stack(states)


SOLVER: dict[str, Any] = {
    "torchdiffeq": SimpleNamespace(odeint=_solve, odeint_adjoint=_solve),
    "field": lambda time, state: -state,
    "state": torch.ones(BATCH, 8),
    "times": torch.linspace(0, 1, 4),
}


def _small(scope: dict[str, Any]) -> dict[str, Any]:
    """Have random tensors be small: a product sized for a GPU takes minutes on a processor that cannot compute in bf16.

    The snippet has a process of its own, which nobody else's tensors are made in.
    """
    whole = torch.randn
    torch.randn = lambda *sizes, **options: whole(*(min(size, 64) for size in sizes), **options)
    return {}


def _stage(scope: dict[str, Any]) -> dict[str, Any]:
    """Return a pipeline of one stage, and its schedule."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    stage = PipelineStage(scope["model"], 0, 1, scope["device"])
    return {"stage": stage, "Schedule1F1B": Schedule1F1B, "loss_fn": scope["criterion"]}


def _two_losses(scope: dict[str, Any]) -> dict[str, Any]:
    shared = scope["model"](scope["x"])
    return {"losses": [shared.mean(), shared.square().mean()]}


def _penalized(scope: dict[str, Any]) -> dict[str, Any]:
    model = nn.Sequential(nn.Flatten(), nn.Linear(scope["x"][0].numel(), CLASSES))
    batches = [(scope["x"], scope["y"]), (scope["x"].flip(0), scope["y"])]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return {"model": model, "batches": batches, "optimizer": optimizer, "l1": 0.01, "l2": 0.05, "copy": copy}


def _distant(scope: dict[str, Any]) -> dict[str, Any]:
    return {**scope, "mu": 0.1, "weights": [torch.rand_like(p) for p in scope["model"].parameters()]}


def _field(scope: dict[str, Any]) -> dict[str, Any]:
    coords = torch.rand(5, 2, requires_grad=True)
    return {"coords": coords, "u": coords.square().sum(1)}


class Adapted(nn.Module):
    """A model with an adapter, as peft loads it."""

    @classmethod
    def from_pretrained(cls, model: nn.Module, path: str) -> Adapted:
        adapted = cls()
        adapted.base = model
        return adapted

    def merge_and_unload(self) -> nn.Module:
        base: nn.Module = self.base
        return base


def projections(scope: dict[str, Any]) -> dict[str, Any]:
    """An attention and a gated layer with a Linear each, and a pipeline of diffusers that can fuse its own."""
    scope["pipe"].transformer.fuse_qkv_projections = lambda: None
    layers = {
        "query": (8, 8),
        "key": (8, 4),
        "value": (8, 4),
        "gate_proj": (8, 12),
        "up_proj": (8, 12),
        "down_proj": (12, 8),
    }
    return {
        "x": torch.rand(BATCH, 5, 8),
        "self": SimpleNamespace(**{name: nn.Linear(*size) for name, size in layers.items()}),
    }


def adapters(scope: dict[str, Any]) -> dict[str, Any]:
    """A library of adapters, and a pipeline of diffusers that can take one in."""
    calls = ("load_lora_weights", "fuse_lora", "unload_lora_weights")
    for call in calls:
        setattr(scope["pipe"], call, lambda *args: None)
    return {"PeftModel": Adapted}


def _detector(scope: dict[str, Any]) -> dict[str, Any]:
    """A pipeline that looks for labels in an image, and the processor and model that it is made of."""

    class Inputs(dict[str, torch.Tensor]):
        def to(self, device: Any) -> Inputs:
            return self

    class Processor:
        def __call__(self, *, text: list[list[str]], images: Any, return_tensors: str) -> Inputs:
            assert [len(labels) for labels in text] == [3]
            return Inputs(pixel_values=images)

        def post_process_grounded_object_detection(
            self, outputs: Any, *, threshold: float, target_sizes: list[tuple[int, int]]
        ) -> Any:
            assert len(target_sizes) == len(outputs)
            return outputs

    class Detector(nn.Module):
        def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
            return pixel_values

    def detector(image: Any, *, candidate_labels: list[str]) -> Any: ...

    return {
        "detector": detector,
        "image": torch.rand(1, 3, 4, 4),
        "labels": ["a cat", "a dog", "a bird"],
        "height": 4,
        "width": 4,
        "AutoProcessor": SimpleNamespace(from_pretrained=lambda path: Processor()),
        "AutoModelForZeroShotObjectDetection": SimpleNamespace(from_pretrained=lambda path: Detector()),
    }


def _built_in_step(scope: dict[str, Any]) -> dict[str, Any]:
    path = io.BytesIO()
    torch.save(nn.Linear(8, 3).state_dict(), path)
    path.seek(0)
    return {"build": lambda: nn.Linear(8, 3), "path": path}


def _checkpointed(scope: dict[str, Any]) -> dict[str, Any]:
    """A model of two blocks of which one is checkpointed, and a solver of differential equations."""
    blocks = [nn.Linear(8, 8), nn.Linear(8, 8)]
    return {**SOLVER, "model": Hub(), "self": SimpleNamespace(blocks=blocks, checkpointed=1)}


def centred_transforms() -> dict[str, Any]:
    """An image, its measured spectrum, a mask and a window, all centred; and what both forms of the program make of them."""
    dims = (-2, -1)
    image, kspace = (torch.randn(2, 6, 8, dtype=torch.complex64) for _ in range(2))
    mask, window = (torch.rand(6, 8) < 0.5).float(), torch.rand(6, 8)

    def shifted(transform: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fftshift(transform(torch.fft.ifftshift(x, dim=dims), norm="ortho"), dim=dims)

    solved = image
    for _ in range(3):
        solved = solved - shifted(torch.fft.ifft2, mask * (shifted(torch.fft.fft2, solved) - kspace))
    spectrum = torch.fft.fftshift(torch.fft.fft2(solved), dim=dims) * window
    return {
        "image": image, "kspace": kspace, "mask": mask, "window": window, "iterations": 3,
        "solved": solved, "blurred": torch.fft.ifft2(torch.fft.ifftshift(spectrum, dim=dims)),
    }  # fmt: skip


def _spectrogram(scope: dict[str, Any]) -> dict[str, Any]:
    """Two signals, and the filters of a Fourier transform under a window: cosines, then sines."""
    n_fft, window = 16, torch.hann_window(16)
    angles = 2 * math.pi / n_fft * torch.arange(n_fft // 2 + 1)[:, None] * torch.arange(n_fft)
    basis = torch.cat([angles.cos(), -angles.sin()])[:, None] * window
    return {"wave": torch.rand(2, 64), "n_fft": n_fft, "hop": 4, "window": window, "basis": basis}


def _layouts(scope: dict[str, Any]) -> dict[str, Any]:
    """Return signals of one dimension, and a model of volumes with two batches."""
    volumes = [(torch.rand(2, 3, 4, 6, 6), torch.zeros(2, dtype=torch.long)) for _ in range(2)]
    layers = nn.Conv3d(3, 4, 3), nn.AdaptiveAvgPool3d(1), nn.Flatten()
    return {"waves": torch.rand(2, 64, 20), "volumes": volumes, "VolumeNet": lambda: nn.Sequential(*layers)}


def _potential(scope: dict[str, Any]) -> dict[str, Any]:
    layer = nn.Linear(3, 1)
    return {"positions": torch.rand(4, 3, requires_grad=True), "potential": lambda positions: layer(positions).sum()}


EVEN = """
widths = [batch.shape[1] for batch in loader]
assert len(widths) == 2 and all(len(batch) == 16 for batch in loader)
if "groups" in globals():
    other = [group[1::world_size] for group in groups]
    ranks = [[sorted(len(rows[at]) for at in batch) for batch in each] for each in (batches, other)]
    assert all(abs(ours[-1] - theirs[-1]) <= 1 for ours, theirs in zip(*ranks, strict=True))
"""
OF_RULE: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "kernels/layout-transpose": _layouts,
    "precision/no-tensor-cores": _potential,
    "transfer/copy-through-host": lambda scope: {name: torch.rand(4) for name in "hwb"},
    "cpu/python-time": lambda scope: {"log": io.StringIO()},
    "cpu/written-files": lambda scope: {"log": io.StringIO()},
    "gradient/repeated-slicing": lambda scope: {
        "wave": torch.rand(2, 32, requires_grad=True),
        "size": 8,
        "hop": 4,
        "x": torch.rand(2, 5, 4),
        "h": torch.zeros(2, 6),
        "cell": torch.nn.GRUCell(4, 6),
        "owner": torch.tensor([0, 1, 2, 0, 1, 2, 0, 1]),
        "groups": 3,
        "tokens": torch.rand(8, 4),
        "which": torch.tensor([0, 1, 1, 0, 1, 0, 0, 1]),
        "experts": [torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)],
        "table": torch.nn.Embedding(9, 4),
        "histories": [torch.tensor([1, 4, 4]), torch.tensor([0]), torch.tensor([8, 2])],
        "target": torch.randint(9, (2, 5)),
    },
    "cpu/cumulative-loop": lambda scope: {
        "scores": torch.randn(2, 6),
        "loss": torch.ones(2),
        "rewards": torch.rand(7),
        "gamma": 0.9,
    },
    "cpu/diagonal-matrix": lambda scope: {
        **{name: getattr(torch.distributions, name) for name in ("Independent", "MultivariateNormal", "Normal")},
        "mean": torch.rand(BATCH, 3),
        "variance": torch.rand(BATCH, 3) + 0.5,
        "scale": torch.rand(BATCH, 3) + 0.5,
        "v": torch.rand(4),
        "d": torch.rand(4),
        "a": torch.rand(4, 4),
    },
    "cpu/fourier-convolution": _spectrogram,
    "cpu/separable-window": lambda scope: {"k": 5, "a": torch.rand(2, 1, 6, 7, 8), "b": torch.rand(2, 1, 6, 7, 8)},
    "cpu/integer-product": lambda scope: {
        "fingerprints": torch.randint(2, (20, 64)).tolist(),
        "query": torch.randint(2, (3, 64)),
    },
    "cpu/pairwise-order": lambda scope: {
        "x": torch.rand(BATCH, 6),
        "n": 6,
        "scores": torch.tensor([0.5, 0.1, 0.9, 0.5]),
        "others": torch.tensor([0.7, 0.5, 0.2]),
        "time": torch.tensor([3.0, 1.0, 3.0, 2.0, 5.0]),
        "hazard": torch.randn(5),
        "positive": torch.tensor([0.9, 0.4, 0.6]),
        "negative": torch.tensor([0.4, 0.1, 0.7, 0.5]),
    },
    "profile/unrecorded-work": lambda scope: {"validate": lambda: None},
    "cpu/unrolled-recurrence": lambda scope: {"features": 4, "hidden": 6},
    "cpu/dropout-masks": lambda scope: {"self": SimpleNamespace()},
    "cpu/copied-model": lambda scope: {"copy": copy, "model": nn.Linear(3, 4), "target": nn.Linear(3, 4)},
    "cpu/growing-prefix": lambda scope: {
        "table": (table := torch.rand(9, 9)),
        "model": lambda ids: table[ids].cumsum(1),  # sees nothing behind a position
    },
    "cpu/expanded-table": lambda scope: {
        "table": torch.rand(5, 4),
        "distance": (torch.arange(3)[:, None] - torch.arange(3) + 2),
    },
    "cpu/pickled-exchange": lambda scope: {"right": torch.zeros(()), "seen": torch.zeros(())},
    "cpu/statistics-every-step": lambda scope: {"log_every": 2},
    "cpu/growing-history": lambda scope: {
        "horizon": 5,
        "env": SimpleNamespace(reset=lambda: torch.ones(2, 4), step=lambda action: torch.eye(4)[action] + 0.1),
        "policy": (layer := nn.GRU(4, 4, batch_first=True)),
        "alone": lambda sequence: layer(sequence)[0],
    },
    "cpu/one-by-one": lambda scope: {"crops": [torch.rand(3, 8, 8) for _ in range(4)]},
    "kernels/one-by-one": lambda scope: {"crops": [torch.rand(3, 8, 8) for _ in range(4)]},
    "kernels/separate-heads": lambda scope: {"n_embd": 8, "head_size": 4, "num_heads": 2, "block_size": 6},
    "cpu/separate-heads": lambda scope: {"n_embd": 8, "head_size": 4, "num_heads": 2, "block_size": 6},
    "cpu/separate-layers": lambda scope: {"features": 4, "outputs": 3, "channels": 5},
    "kernels/separate-layers": lambda scope: {"features": 4, "outputs": 3, "channels": 5},
    "cpu/product-order": lambda scope: {
        "x": torch.rand(2, 6),
        "batches": [torch.rand(2, 6)],
        "weight": torch.rand(5, 6),
        "bias": torch.rand(5),
        "lora_b": torch.rand(5, 2),
        "lora_a": torch.rand(2, 6),
    },
    "cpu/product-chain": lambda scope: {"a": torch.rand(5, 4), "b": torch.rand(5, 4), "w": torch.rand(4, 1)},
    "cpu/long-gram": lambda scope: {"g": torch.rand(9, 4)},
    "gradient/jacobian-passes": lambda scope: {
        "model": nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)),
        "x": torch.rand(4, 3),
    },
    "inference/unmerged-adapter": adapters,
    "inference/separate-projections": projections,
    "inference/weight-norm": lambda scope: {
        "model": nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)), nn.ReLU()),
        "x": torch.rand(2, 8),
    },
    "kernels/expanded-copies": lambda scope: {"adjacency": torch.rand(6, 6), "x": torch.rand(4, 6, 3)},
    "cpu/expanded-copies": lambda scope: {
        "covariance": torch.eye(3)[None] * 2,
        "mean": torch.rand(4, 3),
        "x": torch.rand(4, 3),
        "weights": torch.rand(9) + 0.1,
        "batch": 4,
        "k": 3,
    },
    **{
        f"{group}/rank-sort": lambda scope: {"scores": torch.rand(4, 8), "target": torch.tensor([0, 3, 7, 2])}
        for group in ("cpu", "kernels")
    },
    **{f"{group}/full-sort": lambda scope: {"distance": torch.rand(6, 8), "k": 3} for group in ("cpu", "kernels")},
    "cpu/pairwise-intermediate": lambda scope: {"left": torch.rand(6, 8), "right": torch.rand(5, 8)},
    "kernels/pairwise-intermediate": lambda scope: {"left": torch.rand(6, 8), "right": torch.rand(5, 8)},
    "cpu/repeated-copies": lambda scope: {
        "queries": torch.rand(BATCH, 8, 3, 4),
        "keys": torch.rand(BATCH, 2, 5, 4),
        "values": torch.rand(BATCH, 2, 5, 4),
        "groups": 4,
        "pixels": torch.rand(BATCH, 6, 4),
        "offset": torch.rand(BATCH, 4),
        "places": torch.randint(6, (BATCH, 3)),
    },
    **{
        f"{group}/late-pick": lambda scope: {
            "memory": torch.randint(0, 255, (8, 4), dtype=torch.uint8),
            "table": torch.rand(8, 4),
            "head": torch.nn.Linear(4, 6),
            "hidden": torch.rand(BATCH, 3, 4),
            "u": torch.rand(BATCH, 4),
            "v": torch.rand(8, 4),
            "candidates": torch.randint(8, (BATCH, 3)),
        }
        for group in ("cpu", "kernels")
    },
    **{
        f"{group}/doubtful-late-pick": lambda scope: {
            "steps": 2,
            "table": torch.rand(8, 4),
            "index": torch.randint(8, (2, 3)),
            "model": lambda rows: rows.square().sum(),
        }
        for group in ("cpu", "kernels")
    },
    "gradient/per-sample-backward": lambda scope: {
        "model": nn.Sequential(nn.Flatten(), nn.Linear(scope["x"][0].numel(), CLASSES)),
    },
    "gradient/repeated-backward": _two_losses,
    "gradient/l1-penalty": _penalized,
    "gradient/l2-penalty": _penalized,
    "gradient/proximal-penalty": lambda scope: _distant(_penalized(scope)),
    "inference/label-parts": _detector,
    "gradient/repeated-gradient": _field,
    **{
        f"{group}/repeated-rows": lambda scope: {
            "left": torch.rand(6, 8),
            "right": torch.rand(5, 3),
            "weight": torch.rand(4, 11),
            "bias": torch.rand(4),
        }
        for group in ("cpu", "kernels")
    },
    **{
        f"{group}/copied-buffer": lambda scope: {"memory": torch.zeros(16, 3), "new": torch.rand(2, 3), "oldest": 0}
        for group in ("cpu", "kernels")
    },
    "kernels/full-transform": lambda scope: {"image": torch.rand(32, 31), "psf": torch.rand(32, 31)},
    "cpu/quantized-again": lambda scope: {
        "QuantStub": torch.ao.quantization.QuantStub,
        "DeQuantStub": torch.ao.quantization.DeQuantStub,
        "images": torch.rand(1, 3, 8, 8),
    },
    "cpu/averaged-parameters": lambda scope: {"step": 100},
    "cpu/unbucketed-reduction": lambda scope: {"tensors": [torch.ones(4), torch.ones(2, 3)]},
    "cpu/collective-wait": lambda scope: {
        "tensors": [torch.ones(4), torch.ones(2, 3)],
        "prepare_next_batch": lambda: None,
    },
    "distributed/pipeline-bubble": _stage,
    "distributed/pipeline-wait": _stage,
    "distributed/uneven-stages": lambda scope: {
        "parts": list("eabcdh"),
        "part_ms": [1, 2, 2, 2, 2, 3],
        "num_stages": 3,
    },
    "distributed/uneven-experts": lambda scope: {
        "gate": nn.Linear(8, 4),
        "tokens": torch.rand(16, 8),
        "loss": torch.zeros(()),
    },
    "distributed/exposed-communication": lambda scope: {
        "sent": torch.rand(4, 16),
        "received": torch.zeros(4, 16),
        "dense": torch.rand(4, 3),
        "bottom_mlp": nn.Linear(3, 16),
        "interact": torch.mul,
        "tables": [nn.Embedding(rows, 4) for rows in (8, 2, 16, 4)],
        "world_size": 2,
        "batch_bytes": lambda table: table.num_embeddings,
    },
    "distributed/slow-gpu": _small,
    "distributed/micro-batch-reduction": lambda scope: {"model": scope["DistributedDataParallel"](scope["model"])},
    "distributed/small-batch": lambda scope: {"model": scope["DistributedDataParallel"](scope["model"])},
    "cpu/micro-batch-reduction": lambda scope: {"model": scope["DistributedDataParallel"](scope["model"])},
    "cpu/micro-batch-copies": lambda scope: {"model": scope["DistributedDataParallel"](scope["model"])},
    "kernels/for-loop-indexing": lambda scope: {
        "scale": torch.rand(BATCH),
        "index": torch.tensor([0, 2]),
        "self": SimpleNamespace(),
        "inputs": 4,
        "sequence": torch.rand(BATCH, 3, 4),
        "h": torch.zeros(BATCH, 8),
        "c": torch.zeros(BATCH, 8),
    },
    "transfer/device-pingpong": lambda scope: {"scores": torch.rand(16)},
    "transfer/many-small-copies": lambda scope: {"samples": [torch.rand(3, 8, 8) for _ in range(BATCH)]},
    "gradient/unread-gradients": lambda scope: {"model": nn.Linear(3, 1)},
    "gpu-idle/kernel-selection": lambda scope: {
        "texts": ["a", "b"],
        "new_tokens": 2,
        "keys": scope["k"],
        "values": scope["v"],
        "x": torch.rand(4, 8),
        "expert": torch.tensor([0, 1, 0, 1]),
        "number": 0,
        "layer": nn.Linear(8, 8),
    },
    "gpu-idle/tensor-from-list": lambda scope: {"list_of_arrays": [np.zeros(4) for _ in range(3)]},
    "cpu/element-loop": lambda scope: {
        "target": torch.tensor([0, 1, 1]),
        "predicted": torch.tensor([0, 1, 0]),
        "classes": 2,
        "matrix": torch.zeros(2, 2, dtype=torch.long),
        "x": torch.rand(4),
        "y": torch.rand(4),
        "limit": 0.0,
    },
    "cpu/unchanged-input": lambda scope: {
        "batches": [torch.rand(2, 4) for _ in range(3)],
        "prompts": torch.rand(5, 4),
        "text_encoder": nn.Linear(4, 6),
        "image_encoder": nn.Linear(4, 6),
    },
    "cpu/repeated-function": lambda scope: {
        "propagate": lambda graph, weight: graph @ weight,
        "graph": torch.eye(5).to_sparse(),
        "weight": torch.arange(15.0).reshape(5, 3) / 15,
    },
    "cpu/samples-again": lambda scope: {
        "images": torch.rand(64, 4),
        "labels": torch.randint(0, 3, (64,)),
        "order": torch.randperm(64),
        "backbone": nn.Linear(4, 8),
        "head": nn.Linear(8, 3),
    },
    "cpu/evaluation-every-step": lambda scope: {
        "batches": range(3),
        "train_step": lambda batch: None,
        "evaluate": lambda model, data: 0.5,
        "held_out": torch.rand(4, 4),
    },
    "cpu/growing-work": lambda scope: {
        "batches": [(torch.rand(4, 3), torch.tensor([0, 1, 2, 0])) for _ in range(3)],
        "model": lambda x: x,
    },
    "cpu/built-in-step": _built_in_step,
    "cpu/late-shrink": lambda scope: {
        "frame": torch.randint(0, 256, (1, 256, 256, 3), dtype=torch.uint8),
        "mean": torch.rand(1, 3, 1, 1),
        "std": torch.rand(1, 3, 1, 1) + 0.5,
    },
    "cpu/constant-again": lambda scope: {
        "functools": functools,
        "sinc_kernel": lambda orig, new: torch.sinc(torch.linspace(-3, 3, 7) * new / orig).expand(new, 1, -1),
    },
    **{
        rule: lambda scope: {"K": 3 * torch.eye(6) + torch.ones(6, 6), "r": torch.rand(6)}
        for rule in ("cpu/explicit-inverse", "cpu/factored-again")
    },
    "cpu/repeated-preparation": lambda scope: {
        "edges": torch.tensor([[0, 0, 1], [1, 1, 2]]),
        "propagate": lambda edges, hidden: torch.zeros_like(hidden).index_add_(0, edges[1], hidden[edges[0]]),
    },
    "data-loading/rowwise-fetch": lambda scope: {
        "TensorDataset": torch.utils.data.TensorDataset,
        "BatchSampler": torch.utils.data.BatchSampler,
        "RandomSampler": torch.utils.data.RandomSampler,
        "features": torch.rand(64, 8),
        "targets": torch.arange(64),
    },
    "cpu/padded-batches": lambda scope: {
        "PAD": 0,
        "rows": [torch.tensor([1, 2]), torch.tensor([3])],
        "tokenizer": lambda texts, padding=False, truncation=False, max_length=None: {"input_ids": [[1, 2], [3]]},
        "DataCollatorWithPadding": lambda tokenizer: lambda rows: nn.utils.rnn.pad_sequence(rows, batch_first=True),
    },
    "kernels/padded-batches": lambda scope: {
        "PAD": 0,
        "texts": ["a b", "a"],
        "rows": [torch.tensor([1, 2]), torch.tensor([3])],
        "tokenizer": lambda texts, padding=False, pad_to_multiple_of=1, truncation=False, max_length=0, return_tensors="": {
            "input_ids": torch.zeros(2, 64, dtype=torch.long)
        },
        "DataCollatorWithPadding": lambda tokenizer, pad_to_multiple_of=None: (
            lambda rows: nn.utils.rnn.pad_sequence(rows, batch_first=True)
        ),
    },
    "cpu/uneven-batches": uneven,
    "cpu/uneven-shards": lambda scope: uneven(scope) | {"per_rank": 2},
    "cpu/uneven-work": uneven,
    "cpu/late-loader": lambda scope: {
        "files": list(range(64)),
        "rank": 0,
        "world_size": 2,
        "per_rank": 32,
        "Rows": lambda rows: rows,
    },
    "cpu/lone-work": lambda scope: {
        "rank": 0,
        "world_size": 1,
        "step": 100,
        "held_out": torch.rand(4, 2),
        "evaluate": lambda model, rows: torch.tensor([1.0, len(rows)]),
        "histograms": lambda model: {},
        "loss": torch.tensor(1.0),
        "log": lambda *parts: None,
    },
    "distributed/uneven-batches": uneven,
    "data-loading/unsorted-lengths": lambda scope: {
        "rows": [torch.arange(3 + at % 7) for at in range(70)],
        "pad": lambda rows: nn.utils.rnn.pad_sequence(rows, batch_first=True),
        "model": lambda batch: batch.sum(1),
    },
    "cpu/unlabelled-logits": lambda scope: {
        "self": SimpleNamespace(head=nn.Linear(8, 16)),
        "hidden": torch.rand(BATCH, 4, 8),
        "labels": torch.tensor([[-100, 1, 2, -100], [3, -100, -100, 4]]),
        "vocabulary": 16,
    },
    "kernels/unlabelled-logits": lambda scope: {
        "self": SimpleNamespace(head=nn.Linear(8, 16)),
        "hidden": torch.rand(BATCH, 4, 8),
        "labels": torch.tensor([[-100, 1, 2, -100], [3, -100, -100, 4]]),
        "vocabulary": 16,
    },
    "kernels/one-hot-product": lambda scope: {
        "codes": torch.tensor([0, 2, 2, 1]),
        "classes": 3,
        "table": torch.rand(3, 8),
        "values": torch.rand(4, 8),
    },
    "kernels/one-hot-loss": lambda scope: {
        "labels": torch.tensor([0, 2, 2, 1]),
        "classes": 3,
        "logits": torch.rand(4, 3, requires_grad=True),
    },
    "kernels/layer-on-gathered": lambda scope: {
        "x": torch.rand(5, 8),
        "source": torch.tensor([0, 2, 2, 1, 4, 0, 3, 3, 1, 2]),
        "layer": nn.Linear(8, 6),
        "tokens": torch.randint(4, (BATCH, 16)),
        "embed": nn.Embedding(4, 8),
        "project": nn.Linear(8, 6),
        "target": torch.tensor([1, 0, 3, 1, 2, 4, 0, 3, 4, 2]),
        "edges": torch.rand(10, 4),
        "inner": nn.Linear(20, 6),
    },
    "kernels/class-loop": lambda scope: {
        "classes": 3,
        "target": torch.tensor([0, 2, 2, 1]),
        "pred": torch.tensor([0, 2, 1, 1]),
        "matrix": torch.zeros(3, 3, dtype=torch.int64),
        "groups": torch.tensor([0, 2, 2, 1]),
        "features": torch.rand(4, 8),
        "scores": torch.rand(16),
        "edges": torch.linspace(0, 1, 5),
        "counts": [],
        "mapping": {0: 7, 1: 3, 2: 3},
        "labels": torch.tensor([[0, 1], [2, 2]]),
        "mapped": torch.zeros(2, 2, dtype=torch.int64),
    },
    "kernels/fft-shifts": lambda scope: centred_transforms(),
    "kernels/layer-on-enlarged": lambda scope: {
        "features": torch.rand(BATCH, 8, 4, 4),
        "classify": nn.Conv2d(8, 3, 1),
        "hidden": torch.rand(BATCH, 6, 8),
        "head": nn.Linear(8, 5),
    },
    "cpu/dense-adjacency": lambda scope: {"adjacency": torch.eye(6), "features": torch.rand(6, 4)},
    "cpu/repeated-draws": lambda scope: {"weights": np.array([1.0, 6.0, 1.0])},
    "cpu/mostly-zeros": lambda scope: {"adjacency": torch.eye(6), "features": torch.rand(6, 4)},
    "cpu/masked-pairs": lambda scope: {
        "hidden": torch.rand(6, 4),
        "adjacency": torch.eye(6),
        "a_left": torch.rand(4, 1),
        "a_right": torch.rand(4, 1),
    },
    "cpu/masked-blocks": lambda scope: {
        "owner": torch.tensor([0, 0, 0, 1, 1, 2]),
        **{name: torch.rand(2, 6, 4) for name in ("query", "key", "value")},
    },
    "cpu/list-conversion": lambda scope: {"list_of_arrays": [np.zeros(4) for _ in range(3)]},
    "kernels/python-loop": lambda scope: {
        "averages": [torch.zeros(4)],
        "weights": [torch.ones(4)],
        "parts": (parts := [(torch.rand(BATCH, CLASSES), torch.tensor([0, 1])) for _ in range(3)]),
        "xs": [x for x, _ in parts],
        "ys": [y for _, y in parts],
    },
    "transfer/cpu-created-tensor": lambda scope: {"batch": BATCH},
    "gpu-idle/distribution-checks": lambda scope: {"logits": torch.rand(4, 3)},
    "gpu-idle/launch-bound": lambda scope: {
        "fasterrcnn_resnet50_fpn": lambda num_classes: Detector(),
        "model": Hub(),
        "experts": [nn.Linear(8, 8), nn.Linear(8, 8)],
        "chosen": torch.tensor([0, 1, 0, 1]),
        "tokens": torch.rand(4, 8),
        "mixed": torch.zeros(4, 8),
        "limit": 0.0,
        "forward": None,
    },
    "distributed/exposed-forward-communication": lambda scope: {
        "sent": torch.rand(16, 16),
        "received": torch.zeros(16, 16),
        "dense": torch.rand(16, 3),
        "bottom_mlp": nn.Linear(3, 16),
        "interact": torch.mul,
        "tables": [nn.Embedding(rows, 4) for rows in (8, 2, 16, 4)],
        "world_size": 2,
        "batch_bytes": lambda table: table.num_embeddings,
    },
    "kernels/attention-backend": lambda scope: {
        "model": lambda x: x,
        "batch": {"x": torch.rand(BATCH, 4)},
        **{name: torch.rand(BATCH, 2, 8, 8) for name in "qkv"},
    },
    "kernels/attention-dropout": lambda scope: {
        "self": SimpleNamespace(training=True),
        **{name: torch.rand(BATCH, 2, 8, 8) for name in "qkv"},
    },
    "kernels/attention-head-size": lambda scope: {
        "Transformer": lambda width, heads: scope["model"],
    },
    "kernels/attention-mask": lambda scope: {"n": 8, **{name: torch.rand(BATCH, 2, 8, 8) for name in "qkv"}},
    "kernels/few-tiles": lambda scope: {
        "self": SimpleNamespace(
            qkv=nn.Linear(8, 24), query=nn.Linear(8, 8), key=nn.Linear(8, 8), value=nn.Linear(8, 8)
        ),
        "model": nn.Linear(8, 8),
        "x": torch.rand(BATCH, 8),
        "samples": [torch.rand(8) for _ in range(BATCH)],
    },
    "kernels/narrow-normalization": lambda scope: {"x": torch.rand(BATCH, 64)},
    "gpu-idle/recurrent-launches": lambda scope: {
        "samples": [torch.rand(8) for _ in range(BATCH)],
        "model": nn.Linear(8, 2),
    },
    "kernels/attention-copies": lambda scope: {
        **engines(scope),
        "q": torch.rand(2, 4, 6, 8),
        "k": torch.rand(2, 2, 6, 8),
        "v": torch.rand(2, 2, 6, 8),
        "groups": 2,
        "path": "model",
    },
    "kernels/dense-experts": lambda scope: {
        "tokens": torch.rand(16, 8),
        "scores": torch.rand(16, 4),
        "experts": nn.ModuleList(nn.Linear(8, 8) for _ in range(4)),
    },
    "kernels/nms-candidates": lambda scope: {
        "fasterrcnn_resnet50_fpn": lambda **options: nn.Linear(8, options["num_classes"])
    },
    "kernels/short-row-gather": lambda scope: {"by_node": torch.rand(64, 4), "source": torch.randint(0, 64, (256,))},
    "kernels/odd-channels": lambda scope: {"self": SimpleNamespace()},
    "kernels/own-kernel": lambda scope: {
        "mylib": SimpleNamespace(softmax=lambda x: torch.softmax(x, -1)),
        "x": torch.rand(BATCH, 8),
    },
    "kernels/low-occupancy": lambda scope: {
        "load": lambda **options: inspect.signature(torch.utils.cpp_extension.load).bind(**options),
    },
    "kernels/hand-written-product": lambda scope: {
        "mylib": SimpleNamespace(matmul=torch.matmul),
        "x": torch.rand(BATCH, 8),
        "w": torch.rand(8, 8),
    },
    "kernels/own-product": lambda scope: {
        "mylib": SimpleNamespace(matmul=torch.matmul),
        "x": torch.rand(BATCH, 8),
        "w": torch.rand(8, 8),
    },
    "kernels/narrow-reduction": lambda scope: {name: torch.rand(16) for name in "abc"},
    "kernels/far-from-limit": lambda scope: {
        **{name: torch.rand(2, 4, 16, 16) for name in "qkv"},
        "bias": torch.rand(1, 4, 16, 16),
        "slopes": torch.rand(4),
    },
    "kernels/product-epilogue": lambda scope: {
        "rows": torch.rand(BATCH, 8),
        "weight": torch.rand(8, 4),
        "bias": torch.rand(4),
        "q": torch.rand(2, 16, 4),
        "k": torch.rand(2, 16, 4),
        "scale": 0.5,
    },
    "kernels/patch-convolution": lambda scope: {
        "self": SimpleNamespace(),
        "width": 8,
        "patch": 4,
        "images": torch.rand(BATCH, 3, 8, 8),
    },
    "kernels/strided-access": lambda scope: {
        "scores": torch.rand(BATCH, 8, 8),
        "distances": torch.rand(BATCH, 8, 8),
        "x": torch.rand(BATCH, 8, 8, 3),
    },
    "kernels/vocabulary-loss": lambda scope: {
        "logits": torch.rand(BATCH, 3, 16, requires_grad=True),
        "targets": torch.zeros(BATCH, 3, dtype=torch.long),
    },
    "inference/no-cache": generation,
    "inference/uncached-prefix": prompted,
    "inference/copied-cache": generation,
    "inference/reordered-copies": lambda scope: {
        "beams": torch.tensor([1, 0]),
        "cache": [{name: torch.rand(2, 2, 4, 4) for name in ("key", "value", "source_key", "source_value")}],
    },
    "inference/host-sampling": generation,
    "inference/token-python": lambda scope: {
        **generation(scope),
        "length": 9,
        "cache": None,
        "token": torch.zeros(1, 1, dtype=torch.long),
        "tokens": [],
        "tokenizer": SimpleNamespace(decode=lambda tokens: " ".join(map(str, tokens))),
        "text": "",
        "stop": "0 0",
    },
    "distributed/devices-in-turn": lambda scope: {
        "gpus": [torch.device("cpu")] * 2,
        "first": scope["model"],
        "second": nn.Identity(),
        "path": "model",
        "AutoModelForCausalLM": SimpleNamespace(
            from_pretrained=lambda path, device_map=None, tp_plan=None: writer(scope["model"])
        ),
    },
    "inference/draft-loss": lambda scope: {**engines(scope), "path": "model", "draft": "draft"},
    "inference/memory-bound-decode": lambda scope: {
        **engines(scope),
        "path": "model",
        "prompt": "a cat",
        "prompts": ["a cat", "a dog"],
        "TorchAoConfig": lambda kind: kind,
        "AutoModelForCausalLM": SimpleNamespace(
            from_pretrained=lambda path, dtype, quantization_config=None: writer(scope["model"])
        ),
        "tokenizer": lambda texts, padding=False, return_tensors="pt": {"input_ids": torch.zeros(1, 3)},
    },
    "precision/half-products": lambda scope: {
        "pipeline": Pipeline(scope["model"]),
        "prompt": "a cat",
        "quantize_": lambda model, config: None,
        "Float8DynamicActivationFloat8WeightConfig": lambda: None,
    },
    "precision/float64": lambda scope: {"values_of": lambda x: torch.ones(4)},
    "kernels/slow-operator": lambda scope: {
        "scores": torch.rand(BATCH, 16),
        "scale": torch.rand(8),
        "keys": torch.arange(BATCH),
        "parts": [torch.rand(2, 16), torch.rand(3, 16)],
        "q": torch.rand(2, 6, 4, 8),
        "k": torch.rand(2, 6, 4, 8),
        "rows": torch.rand(BATCH, 16),
        "keep": torch.ones(BATCH),
    },
    "kernels/small-grid": lambda scope: {
        "batch": torch.rand(BATCH, 16),
        "scores": torch.exp,
        "best": [],
        "metrics": torch.var_mean,
        "logits": torch.rand(BATCH, 16),
    },
    "gpu-idle/metrics": lambda scope: {
        "train_step": lambda x, y: torch.rand(len(x), CLASSES),
        "metric": SimpleNamespace(update=lambda out, y: None, compute=lambda: 0.0),
        "log": print,
    },
    "gpu-idle/processor": lambda scope: {
        "AutoImageProcessor": SimpleNamespace(
            from_pretrained=lambda name, use_fast=False: (
                lambda images, return_tensors=None, device="cpu": torch.nn.Linear(1, 1)
            )
        ),
        "checkpoint_name": "google/vit",
        "images": [torch.zeros(3, 8, 8)],
    },
    "kernels/foreach-slow-path": lambda scope: {
        "moments": [torch.ones(4), torch.ones(2, dtype=torch.bfloat16)],
        "beta": 0.9,
    },
    "gpu-idle/host-function": lambda scope: {
        "find_device": lambda model: torch.device("cpu"),
        "block": nn.ReLU(),
        "batches": [scope["x"]],
    },
    "gpu-idle/eager-parts": lambda scope: {
        "pipeline": Pipeline(scope["model"]),
        "prompt": "a cat",
    },
    "gpu-idle/unexplained": lambda scope: {"prepare": lambda batch: batch},
    "kernels/slow-optimizer": lambda scope: {
        "Shampoo": lambda parameters, lr, precondition_frequency: torch.optim.SGD(parameters, lr=lr)
    },
    "kernels/sdpa-math-fallback": lambda scope: {
        "self": SimpleNamespace(relative_bias=lambda length: torch.rand(length, length, requires_grad=True))
    },
    "memory/unneeded-checkpointing": _checkpointed,
    "memory/unmeasured-checkpointing": _checkpointed,
    "cpu/state-dict-in-loop": lambda scope: {
        "model": nn.Linear(8, 8),
        "shadow": nn.Linear(8, 8).requires_grad_(requires_grad=False),
        "decay": 0.99,
    },
    "cpu/separate-turns": lambda scope: {
        "users": 5,
        "owner": torch.tensor([0, 1, 2, 3, 4, 1, 3, 3]),
        "items": torch.arange(24.0).reshape(8, 3),
        "start": torch.tensor([0, 2, 5]),
        "length": torch.tensor([2, 4, 3]),
    },
    "cpu/unneeded-checkpointing": lambda scope: {
        **SOLVER,
        "model": Hub(),
        "self": SimpleNamespace(blocks=[nn.Linear(8, 8), nn.Linear(8, 8)]),
    },
}
"""Names that mean something else, or something at all, in the snippets of one rule only."""

USES = {
    "cpu/cumulative-loop": """
terms = [torch.logsumexp(scores[:, k:], 1) - scores[:, k] for k in range(6)]
torch.testing.assert_close(loss, 1 + sum(terms))
expected = torch.zeros(8)
for t in reversed(range(7)):
    expected[t] = rewards[t] + gamma * expected[t + 1]
torch.testing.assert_close(returns, expected[:7])
""",
    "cpu/diagonal-matrix": """
if "policy" in globals():
    for density, spread in ((policy, variance.sqrt()), (posterior, scale)):
        alone = Normal(mean, spread)
        torch.testing.assert_close(density.log_prob(mean + 1), alone.log_prob(mean + 1).sum(-1))
        torch.testing.assert_close(density.entropy(), alone.entropy().sum(-1))
else:
    torch.testing.assert_close(scaled, torch.stack([v[i] * a[i] for i in range(4)]))
    torch.testing.assert_close(normed, torch.outer(d, d) * a)
""",
    "cpu/expanded-copies": """
if "negatives" in globals():
    assert negatives.shape == (4, 3) and 0 <= negatives.min() and negatives.max() <= 8
else:
    torch.testing.assert_close(loss, (((x - mean) ** 2).sum(1) / 2 + 3 * math.log(4 * math.pi)).mean() / 2)
""",
    "cpu/fourier-convolution": """
frames = wave.unfold(1, n_fft, hop) * window
torch.testing.assert_close(magnitude, torch.fft.rfft(frames).abs().transpose(1, 2), atol=1e-5, rtol=1e-4)
""",
    "kernels/layer-on-gathered": """
if "columns" in globals() or "sums" in globals():
    torch.testing.assert_close(messages, F.relu(inner(torch.cat([x[source], x[target], edges], 1))))
""",
    "cpu/pairwise-order": """
if "rest" in globals():
    torch.testing.assert_close(total, torch.stack([x[:, : i + 1].sum(1) for i in range(n)], 1))
    torch.testing.assert_close(rest, torch.stack([x[:, i:].sum(1) for i in range(n)], 1))
elif "below" in globals():
    assert below.tolist() == [1, 0, 3, 1]
else:
    later = [[0, 2, 4], [0, 1, 2, 3, 4], [0, 2, 4], [0, 2, 3, 4], [4]]
    torch.testing.assert_close(log_risk, torch.stack([hazard[at].logsumexp(0) for at in later]))
    torch.testing.assert_close(area, torch.tensor((4 + 1 + 3) / 12))
""",
    "gradient/repeated-slicing": """
if "frames" in globals():
    assert torch.equal(frames[:, 2], wave[:, 8:16])
    torch.testing.assert_close(pooled[1], (features[1] + features[4] + features[7]) / 3)
    torch.testing.assert_close(chosen[0], experts[0](tokens[[0, 3, 5, 6]]))
    inputs = x
else:
    torch.testing.assert_close(pooled[0], (table.weight[1] + 2 * table.weight[4]) / 3)
    torch.testing.assert_close(pooled[1:], torch.stack([table.weight[0], (table.weight[8] + table.weight[2]) / 2]))
    inputs = table.weight[target]
state = torch.zeros(2, 6)
for at in range(5):
    state = cell(inputs[:, at], state)
torch.testing.assert_close(h, state)
""",
    "kernels/fft-shifts": "torch.testing.assert_close(image, solved)\ntorch.testing.assert_close(filtered, blurred)",
    "gpu-idle/launch-bound": """
if forward is not None:
    forward(SimpleNamespace(encoder=nn.Linear(4, 4), head=nn.Linear(4, 2)), torch.rand(2, 4))
""",
    "cpu/separate-turns": """
rows = [items[owner == user] for user in range(users)]
torch.testing.assert_close(means, torch.stack([each.mean(0) for each in rows]))
torch.testing.assert_close(peaks, torch.stack([each.amax(0) for each in rows]))
if "cut_means" in globals():
    torch.testing.assert_close(cut_means, torch.stack([items[s : s + n].mean(0) for s, n in zip(start, length)]))
""",
    "cpu/tiny-operators": '"forward" in globals() and forward(SimpleNamespace(width=4, cell=nn.Linear(4, 4)), torch.rand(2, 3, 4))',
    "kernels/python-loop": "torch.testing.assert_close(loss, sum(criterion(x, y) for x, y in parts))",
    "kernels/scatter-embedding-backward": "table(index).sum().backward()",
    "cpu/dropout-masks": """
x = torch.ones(4, 5000, requires_grad=True)
y = self.dropout(x)
zero = y == 0
assert 0.08 < zero.float().mean() < 0.12 and torch.allclose(y[~zero], torch.tensor(1 / 0.9), rtol=0.01)
y.sum().backward()
assert torch.equal(x.grad, y.detach())
self.dropout.eval()
assert torch.equal(self.dropout(x), x)
""",
    "cpu/copied-model": """
model.weight.data.add_(1)
kept = after_step()
for net in (kept, target):
    assert net is not model and torch.equal(net.weight, model.weight) and torch.equal(net.bias, model.bias)
    assert net.weight.requires_grad and net.weight.is_leaf
""",
    "cpu/separable-window": """
assert len(sums) == 5
for own, image in zip(sums, (a, b, a * a, b * b, a * b), strict=True):
    whole = F.avg_pool3d(image, k, 1, k // 2) * k**3
    torch.testing.assert_close(own, whole, atol=1e-4, rtol=1e-4)
""",
    "cpu/integer-product": """
assert torch.equal(common, query @ torch.tensor(fingerprints).t())
""",
    "cpu/product-chain": """
assert torch.allclose(out, (torch.bmm(a.unsqueeze(2), b.unsqueeze(1)) @ w).squeeze(2), atol=1e-6)
""",
    "cpu/long-gram": """
def as_it_was(g, steps=5):
    x = g / (g.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return x


for matrix in (g, g.mT, torch.rand(3, 7, 2)):
    assert torch.allclose(zeropower(matrix), as_it_was(matrix), atol=1e-4)
""",
    "gradient/jacobian-passes": """
as_it_was = torch.autograd.functional.jacobian(model, x)
assert "of_each" in globals() or torch.allclose(whole, as_it_was, atol=1e-6)
if "of_each" in globals():
    assert torch.allclose(of_each, torch.diagonal(as_it_was, dim1=0, dim2=2).permute(2, 0, 1), atol=1e-6)
    assert torch.allclose(of_each, torch.func.vmap(torch.func.jacrev(model))(x), atol=1e-6)
""",
    "gradient/l1-penalty": """
twin = copy.deepcopy(model)
train_step(batches)
loss = sum(criterion(twin(x), y) for x, y in batches) / 2 + l1 * sum(p.abs().sum() for p in twin.parameters())
loss.backward()
torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9).step()
for own, other in zip(model.parameters(), twin.parameters()):
    assert torch.allclose(own, other, atol=1e-6)
""",
    "gradient/proximal-penalty": """
twin = copy.deepcopy(model)
train_step(batches)
loss = sum(criterion(twin(x), y) for x, y in batches) / 2
(loss + mu / 2 * sum((p - w).pow(2).sum() for p, w in zip(twin.parameters(), weights))).backward()
torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9).step()
for own, other in zip(model.parameters(), twin.parameters()):
    assert torch.allclose(own, other, atol=1e-5)
""",
    "gradient/l2-penalty": """
twin = copy.deepcopy(model)
made = type(optimizer)
if "loss_of" in globals():
    loss_of(x, y).backward()
    optimizer.step()
    loss = criterion(twin(x), y)
    theirs = made(twin.parameters(), lr=1e-3)
else:
    train_step(batches)
    loss = sum(criterion(twin(x), y) for x, y in batches) / 2
    theirs = made(twin.parameters(), lr=0.1, momentum=0.9)
(loss + l2 * sum(p.pow(2).sum() for p in twin.parameters())).backward()
theirs.step()
for own, other in zip(model.parameters(), twin.parameters()):
    assert made is torch.optim.AdamW or torch.allclose(own, other, atol=1e-5)  # the first fix is not for AdamW
""",
    "cpu/growing-prefix": """
ids = torch.tensor([[0, 3, 2, 1, 8], [4, 4, 7, 5, 6]])
one_by_one = [F.cross_entropy(table[ids[:, :t]].sum(1), ids[:, t]) for t in range(1, 5)]
assert torch.allclose(loss_of(ids), torch.stack(one_by_one).mean())
""",
    "cpu/growing-history": """
seen = play()
assert seen.shape == (2, 5, 4)
assert torch.equal(seen[:, 1:], torch.eye(4)[alone(seen)[:, :-1].argmax(-1)] + 0.1)
""",
    "cpu/expanded-table": """
q, k = torch.rand(2, 3, 3, 4), torch.rand(2, 3, 3, 4)
pairs = q @ k.transpose(-1, -2) + (q[..., None, :] * table[distance]).sum(-1)
assert torch.allclose(scores(q, k), pairs, atol=1e-5)
""",
    "cpu/pickled-exchange": """
update(torch.eye(4), torch.tensor([0, 1, 2, 0]))
assert (right, seen) == (3, 4)
""",
    "cpu/unrolled-recurrence": "assert encode(torch.rand(2, 5, 4)).shape == (2, 5, 6)",
    "kernels/separate-heads": "assert attend(torch.rand(3, 5, 8)).shape == (3, 5, 8)",
    "cpu/separate-heads": "assert attend(torch.rand(3, 5, 8)).shape == (3, 5, 8)",
    "cpu/separate-layers": "assert forward(torch.rand(2, 5, 4)).shape == (2, 5, 3)",
    "kernels/separate-layers": "assert forward(torch.rand(2, 5, 4)).shape == (2, 5, 3)",
    "kernels/pairwise-intermediate": """
if "difference" not in globals():
    apart = left[:, None] - right
    assert torch.allclose(squared, apart.square().sum(-1), atol=1e-5)
    assert torch.allclose(distances, apart.norm(dim=-1), atol=1e-5)
    assert torch.allclose(dots, (left[:, None] * right).sum(-1), atol=1e-5)
    assert torch.allclose(cosines, F.cosine_similarity(left[:, None], right, dim=-1), atol=1e-5)
""",
    "cpu/unchanged-input": "assert scores.shape == (2, 5)",
    "cpu/repeated-function": """
users, positive, negative = torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([4, 2])
difference = (weight[users] * (weight[negative] - weight[positive])).sum(1)
assert torch.allclose(loss_of(users, positive, negative), F.softplus(difference).mean())
""",
    "cpu/samples-again": "assert loss.ndim == 0",
    "cpu/evaluation-every-step": "assert accuracy == 0.5",
    "cpu/growing-work": "assert 0 <= float(accuracy) <= 1",
    "cpu/built-in-step": "assert predict(torch.rand(2, 8)).shape == (2, 3)",
    "cpu/late-shrink": """
resized = F.interpolate(frame.permute(0, 3, 1, 2).float(), size=(128, 128), mode="bilinear")
assert torch.allclose(x, (resized / 255 - mean) / std, atol=1e-4)
""",
    "cpu/constant-again": "assert resample(torch.rand(1, 1, 30), 3, 2).shape == (1, 2, 8)",
    "cpu/explicit-inverse": "assert torch.allclose(fit, r @ K.inverse() @ r)",
    "cpu/factored-again": """
assert torch.allclose(log_det, K.logdet())
assert torch.allclose(fit, r @ K.inverse() @ r)
""",
    "cpu/repeated-preparation": """
assert forward(SimpleNamespace(lin=nn.Linear(4, 4)), torch.rand(3, 4), edges).shape == (3, 4)
""",
    "cpu/padded-batches": """
if "collate" in globals():
    assert collate([torch.tensor([1, 2]), torch.tensor([3])])[1, :2].tolist() == [3, 0]
""",
    "kernels/padded-batches": """
if "collate" in globals():
    tokens = collate([torch.tensor([1, 2]), torch.arange(1, 71)])
    assert tokens.shape[1] in (128, 512) and tokens[0].sum() == 3 and tokens[1].sum() == 70 * 71 // 2
""",
    "cpu/uneven-batches": EVEN,
    "cpu/uneven-shards": """
assert len(batches) == 2 and all(len(batch) == 16 for batch in batches)
""",
    "cpu/uneven-work": """
assert len(batches) == 2 and all(len(batch) == 16 for batch in batches)
""",
    "distributed/uneven-batches": EVEN,
    "data-loading/unsorted-lengths": """
if "ByLength" in globals():
    widths = [batch.shape[1] for batch in loader]
    assert len(loader) == len(widths) == 3 and max(widths) > min(widths)
if "order" in globals():
    assert results.tolist() == [row.sum() for row in rows]
""",
    "inference/uncached-prefix": """
whole = model(ids)[0][:, -1]
if "logits" in globals():
    assert torch.allclose(logits[:, -1], whole, atol=1e-5)
else:
    assert out[:, -1].tolist() == whole.argmax(-1).tolist()
""",
    "data-loading/slow-collate-or-transform": """
if "Photos" in globals():
    photos = Photos()
    photos.paths = ["a.jpg"]
    image = photos[0]
if "to_batch" in globals():
    to_batch([image])
""",
    "cpu/busy-workers": """
import inspect, io, random
known = globals()
if not {"Pictures", "Clips", "smooth", "sample"} & known.keys():
    assert next(iter(loader))
elif "Pictures" in known:
    pictures = Pictures(["a.jpg"])
    pictures[len(pictures) - 1]
elif "smooth" in known:
    assert smooth(torch.zeros(400)).shape == (400,)
elif "sample" in known:
    assert sample(np.zeros((99, 98, 3), np.uint8)).shape == (64, 64, 3)
elif "clips" in inspect.signature(Clips).parameters:
    clips = Clips(torch.zeros(2, 400))
    assert clips[len(clips) - 1].shape == (256,)
else:
    np.savez_compressed(packed := io.BytesIO(), wave=np.zeros(400, np.float32))
    packed.seek(0)
    clips = Clips([packed])
    packed.seek(0)
    assert clips[len(clips) - 1].shape == (400,)
""",
    "data-loading/decoded-again": """
pictures = Pictures(["a.jpg"])
pictures[len(pictures) - 1]
""",
    "data-loading/made-again": "assert smooth(torch.zeros(400)).shape == (400,)",
    "cpu/made-again": "assert smooth(torch.zeros(400)).shape == (400,)",
    "cpu/repeated-draws": "assert (draw(200) == 1).mean() > 0.5",
    "data-loading/late-crop": """
class Volumes:
    volumes = [1000 * torch.rand(40, 48, 56) - 500]


assert __getitem__(Volumes(), 0).shape == (32, 32, 32)
""",
    "data-loading/converted-rows": """
class Table(np.ndarray):
    iloc = values = property(lambda table: table)

    def to_numpy(self):
        return np.asarray(self)


windows = Windows(np.zeros((80, 3)).view(Table))
windows[len(windows) - 1]
""",
}
"""Code that uses the definitions of a rule's snippet as its reader does, where they are no loader, model or optimizer."""


def prof() -> Any:
    """A profiler that runs."""
    running = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    running.start()
    return running


def libraries() -> dict[str, Any]:
    """Return stand-ins for the parts of other libraries that snippets use, with the arguments that these take."""
    ns = SimpleNamespace

    class Picture(np.ndarray):
        """An image that is its array."""

        def resize(self, size: tuple[int, int]) -> Any:  # type: ignore[override]
            """Return one of another size."""
            return np.zeros((*size, 3), np.uint8)

    image = ns(convert=lambda mode: np.zeros((8, 8, 3), np.uint8).view(Picture), draft=lambda mode, size: None)
    return {
        "T": ns(
            Compose=lambda transforms: transforms,
            Resize=lambda size, antialias=True: size,
            ToTensor=lambda: None,
            PILToTensor=lambda: None,
            Normalize=lambda mean, std, inplace=False: (mean, std),
        ),
        "v2": ns(
            functional=ns(
                resize=lambda inpt, size, antialias=True: F.interpolate(inpt[None].float(), size)[0].to(inpt.dtype),
                to_dtype=lambda inpt, dtype, scale=False: inpt.to(dtype) / 255,
            )
        ),
        "decode_image": lambda input, mode="UNCHANGED": torch.zeros(3, 8, 8, dtype=torch.uint8),
        "Image": ns(open=lambda fp: image),
        "scipy": ns(ndimage=ns(zoom=lambda input, zoom, order=3: np.zeros((8, 8, 3)))),
        "tokenizer": lambda text, padding=False, pad_to_multiple_of=1, return_tensors=None: {
            "input_ids": torch.ones(2, 8)
        },
        "writer": ns(add_scalar=lambda tag, value, step: None, add_histogram=lambda tag, values, step: None),
        "progress": ns(set_postfix=lambda **figures: None),
        "TrainingArguments": training_arguments,
        "lightning": ns(Trainer=lambda max_epochs=None, precision="32-true": (max_epochs, precision)),
    }


def training_arguments(
    output_dir: str,
    *,
    per_device_train_batch_size: int = 8,
    bf16: bool = False,
    tf32: bool | None = None,
    optim: str = "adamw_torch",
    torch_compile: bool = False,
    dataloader_num_workers: int = 0,
    dataloader_persistent_workers: bool = False,
    train_sampling_strategy: str = "random",
) -> dict[str, Any]:
    """Return the arguments of transformers' Trainer (5.17) that fixes set."""
    return dict(locals())


class Pipeline:
    """A pipeline of diffusers: a transformer with what is around it, and images for a prompt."""

    def __init__(self, transformer: nn.Module) -> None:
        self.transformer = transformer
        self.text_encoder = nn.Linear(2, 2)
        self.vae = SimpleNamespace(decode=nn.Linear(2, 2))

    def __call__(self, prompt: str) -> SimpleNamespace:
        return SimpleNamespace(images=[self.transformer])


class Detector(Net):
    """A model with a backbone."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Linear(8, 8)


class Hub(Net):
    """A model as transformers loads it."""

    def __init__(self) -> None:
        super().__init__()
        self.generation_config = SimpleNamespace(cache_implementation=None)

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs: Any = None) -> None: ...

    def gradient_checkpointing_disable(self) -> None: ...


def engines(scope: dict[str, Any]) -> dict[str, Any]:
    """Return stand-ins for engines and for Hugging Face's libraries, with the options that these take, and what they are given."""

    def vllm(
        model: str,
        *,
        dtype: str = "auto",
        enforce_eager: bool = False,
        speculative_config: dict[str, Any] | None = None,
        tensor_parallel_size: int = 1,
        pipeline_parallel_size: int = 1,
        enable_expert_parallel: bool = False,
        enable_eplb: bool = False,
        eplb_config: Any = None,
        gpu_memory_utilization: float = 0.9,
        max_num_seqs: int | None = None,
        async_scheduling: bool | None = None,
        disable_log_stats: bool = False,
        attention_backend: str | None = None,
        compilation_config: Any = None,
        cuda_graph_config: Any = None,
        torch_compile_config: Any = None,
        quantization: str | None = None,
        kv_cache_dtype: str = "auto",
        kernel_config: Any = None,
        enable_chunked_prefill: bool = True,
        max_num_batched_tokens: int | None = None,
        max_num_tokens: int | None = None,
        disable_overlap_scheduler: bool = False,
    ) -> Any: ...

    def sglang(
        *,
        model_path: str,
        tp_size: int = 1,
        pp_size: int = 1,
        disable_cuda_graph: bool = False,
        speculative_algorithm: str | None = None,
        speculative_draft_model_path: str | None = None,
        speculative_num_steps: int | None = None,
        speculative_eagle_topk: int | None = None,
        speculative_num_draft_tokens: int | None = None,
        cuda_graph_max_bs: int | None = None,
        enable_torch_compile: bool = False,
        torch_compile_max_bs: int = 32,
        enable_flashinfer_allreduce_fusion: bool = False,
        disable_overlap_schedule: bool = False,
        chunked_prefill_size: int | None = None,
        enable_mixed_chunk: bool = False,
        kv_cache_dtype: str = "auto",
        moe_runner_backend: str = "auto",
        quantization: str | None = None,
        max_running_requests: int | None = None,
    ) -> Any: ...

    def load(path: str, *, attn_implementation: str | None = None, dtype: torch.dtype | None = None) -> nn.Module:
        return Hub().to(dtype or torch.float32)

    class Inputs(dict[str, torch.Tensor]):
        def to(self, device: Any) -> Inputs:
            return self

    def processor(path: str, *, use_fast: bool = False) -> Any:
        def process(images: Any, return_tensors: str, **named: Any) -> Inputs:
            assert set(named) <= ({"device"} if use_fast else set()), "a slow processor takes no device"
            return Inputs(pixel_values=torch.stack(list(images)).float())

        return process

    denoiser = SimpleNamespace(compile=lambda mode=None, fullgraph=False, dynamic=None: None)

    def pipe(prompt: str) -> Any: ...

    def task(inputs: Iterable[Any], *, batch_size: int = 1, num_workers: int = 0) -> Iterator[Any]:
        return (None for _ in DataLoader(inputs, batch_size=batch_size, num_workers=0))  # type: ignore[arg-type]

    pipe.transformer = denoiser  # type: ignore[attr-defined]
    images = [scope["x"][0], scope["x"][1]]
    return {
        "CudaGraphConfig": lambda max_batch_size=0, enable_padding=False: None,
        "TorchCompileConfig": lambda enable_inductor=False: None,
        "LLM": vllm, "sgl": SimpleNamespace(Engine=sglang), "pipe": pipe, "task": task, "prompt": "a cat", "images": images,
        "AutoModel": SimpleNamespace(from_pretrained=load), "AutoImageProcessor": SimpleNamespace(from_pretrained=processor),
        "videos": [images],
    }  # fmt: skip


def join(ranks: int, itself: bool) -> None:
    """A group of this process alone, or of as many as are pretended, as torchrun starts it; *itself* makes the group."""
    if dist.is_initialized():
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # As torchrun does.
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
    os.environ["MASTER_PORT"] = str(port)
    # DDP's hooks ask for these, and run without.
    torch.version.cuda, torch.cuda.nccl.version, dist.is_nccl_available = "13.0", lambda: (2, 28, 0), lambda: True
    if itself:
        return
    if ranks == 1:
        dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/store", rank=0, world_size=1)
        return
    from torch.testing._internal.distributed.fake_pg import FakeStore  # registers the backend

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
