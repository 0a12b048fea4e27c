"""The ladder's program: a ResNet-18 learns fake CIFAR-10, in the state that a file of settings names.

    python train.py SETTINGS.json RESULT.json
    advisor record train.py SETTINGS.json RESULT.json

``advisor ladder`` copies it into its output folder and runs it there in both ways, as any training script is run.
"""

from __future__ import annotations

import io
import itertools
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from PIL import Image
from torch import nn

from ladder.states import Measurement, Settings, Task

CLASSES = 10
Batch = tuple[torch.Tensor, torch.Tensor]


class FakeCIFAR:
    """Random pictures with random labels, made on the spot: arrays of 32 pixels, or larger JPEGs of the same."""

    def __init__(self, settings: Settings, length: int) -> None:
        self.settings, self.length = settings, length
        random = np.random.default_rng(0)
        jpeg = settings.stored > 32
        arrays = random.integers(0, 255, (256 if jpeg else 10_000, 32, 32, 3), dtype=np.uint8)
        self.labels = random.integers(0, CLASSES, length).tolist()
        self.pictures = [encode(array, settings.stored) for array in arrays] if jpeg else list(arrays)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        size = self.settings.size
        image = decode(self.pictures[index % len(self.pictures)], size if self.settings.draft else None)
        image = image.resize((size, size), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        return pixels if self.settings.as_bytes else normalize(pixels), self.labels[index]


def encode(array: Any, edge: int) -> bytes:
    """Encode a picture as a JPEG of *edge* pixels."""
    file = io.BytesIO()
    Image.fromarray(array).resize((edge, edge), Image.Resampling.BILINEAR).save(file, "JPEG", quality=90)
    return file.getvalue()


def decode(stored: Any, edge: int | None) -> Image.Image:
    """Decode a stored picture; of a JPEG the decoder may give a smaller one, of at least *edge* pixels."""
    if not isinstance(stored, bytes):
        return Image.fromarray(stored)
    image = Image.open(io.BytesIO(stored))
    if edge is not None:
        image.draft("RGB", (edge, edge))
    return image.convert("RGB")


def normalize(pixels: torch.Tensor) -> torch.Tensor:
    """Turn bytes into floats from -1 to 1, as torchvision's ToTensor and Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)) do."""
    half = torch.full((3, 1, 1), 0.5, device=pixels.device)
    return pixels.to(torch.float32).div(255).sub_(half).div_(half)


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet18(nn.Module):
    """torchvision's resnet18, layer for layer and name for name, of any width."""

    def __init__(self, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Block(width, width, 1), Block(width, width, 1))
        self.layer2 = nn.Sequential(Block(width, 2 * width, 2), Block(2 * width, 2 * width, 1))
        self.layer3 = nn.Sequential(Block(2 * width, 4 * width, 2), Block(4 * width, 4 * width, 1))
        self.layer4 = nn.Sequential(Block(4 * width, 8 * width, 2), Block(8 * width, 8 * width, 1))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def network(width: int) -> tuple[nn.Module, str]:
    """Build a ResNet-18 with random weights, and name its origin: torchvision where that is installed and *width* is its own."""
    if width == 64:
        with suppress(ImportError):
            from torchvision.models import resnet18

            return resnet18(), "torchvision's resnet18"
    return ResNet18(width), f"a ResNet-18 with {width} channels in its first layer"


class Training:
    """The model, its optimizer, and one step of training in the state that the settings name."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.device = settings, torch.device(settings.device)
        model, self.network = network(settings.width)
        self.layout = torch.channels_last if settings.channels_last else torch.contiguous_format
        self.model = model.to(self.device, memory_format=self.layout).train()
        self.criterion = nn.CrossEntropyLoss().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001, momentum=0.9)
        self.forward: Callable[[torch.Tensor], Any] = torch.compile(self.model) if settings.compiled else self.model
        self.autocast = getattr(torch, settings.autocast) if settings.autocast else None

    def step(self, batch: Batch) -> None:
        """Train one step."""
        images = batch[0].to(self.device, non_blocking=self.settings.pin)
        labels = batch[1].to(self.device, non_blocking=self.settings.pin)
        if self.settings.as_bytes:
            images = normalize(images)
        images = images.contiguous(memory_format=self.layout)
        with torch.autocast(self.device.type, dtype=self.autocast, enabled=self.autocast is not None):
            loss = self.criterion(self.forward(images), labels)
        self.optimizer.zero_grad(set_to_none=self.settings.set_to_none)
        loss.backward()
        self.optimizer.step()


class Stopwatch:
    """Times of steps: on a GPU between the ends of their work, which the host runs ahead of; else by the clock."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self.marks: list[Any] = []

    def mark(self) -> None:
        """Note the end of a step."""
        if self.on_gpu:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def laps_ms(self) -> list[float]:
        """Return the time between each two marks."""
        pairs = list(itertools.pairwise(self.marks))
        if self.on_gpu:
            torch.cuda.synchronize()
            return [before.elapsed_time(after) for before, after in pairs]
        return [1000 * (after - before) for before, after in pairs]


def peak_bytes(device: torch.device) -> int | None:
    """Return the most memory so far: of a GPU that of tensors, else that of this process, its workers not counted."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def main(task_file: str, result: str) -> None:
    """Train, and write to *result* how long the steps after the first few took."""
    task = msgspec.json.decode(Path(task_file).read_bytes(), type=Task)
    settings = task.settings
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    training = Training(settings)
    loader: Iterable[Batch] = torch.utils.data.DataLoader(
        FakeCIFAR(settings, settings.batch * (task.warmup + task.steps)),  # type: ignore[arg-type, unused-ignore]
        batch_size=settings.batch,
        num_workers=settings.workers,
        pin_memory=settings.pin,
    )
    stopwatch = Stopwatch(training.device)
    for number, batch in enumerate(loader, 1):
        training.step(batch)
        if number >= task.warmup:
            stopwatch.mark()
    measurement = Measurement(
        laps_ms=stopwatch.laps_ms(),
        peak_memory_bytes=peak_bytes(training.device),
        network=training.network,
        parameters=sum(parameter.numel() for parameter in training.model.parameters()),
        threads=torch.get_num_threads(),
    )
    Path(result).write_bytes(msgspec.json.encode(measurement))


if __name__ == "__main__":
    main(*sys.argv[1:])
