"""Ten small models in plain torch, each with a step that runs it forward and backward: for tests of arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Step = Callable[[], None]


def _train(model: nn.Module, *inputs: Tensor) -> Step:
    def step() -> None:
        out = model(*inputs)
        (out[0] if isinstance(out, tuple) else out).float().pow(2).mean().backward()

    return step


class Residual(nn.Module):
    """A block of a residual network."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(out)) + self.short(x))


def resnet() -> Step:
    blocks = [Residual(16, 16, 1), Residual(16, 32, 2)]
    stem = nn.Conv2d(3, 16, 7, 2, 3)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
    return _train(nn.Sequential(stem, nn.MaxPool2d(3, 2, 1), *blocks, *head), torch.randn(4, 3, 32, 32))


def depthwise() -> Step:
    layers = [nn.Conv2d(16, 16, 3, stride, 1, groups=16) for stride in (1, 2)]
    points = [nn.Conv2d(16, 16, 1) for _ in layers]
    grouped = nn.Conv2d(16, 32, 3, padding=2, dilation=2, groups=4)
    return _train(nn.Sequential(layers[0], points[0], layers[1], points[1], grouped), torch.randn(2, 16, 16, 16))


class UNet(nn.Module):
    """One level down, one up by a transposed convolution, and the way across."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, 2, 1)
        self.inner = nn.Conv2d(8, 16, 3, 1, 1)
        self.up = nn.ConvTranspose2d(16, 8, 4, 2, 1)
        self.out = nn.Conv2d(11, 2, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        up = self.up(F.relu(self.inner(F.relu(self.down(x)))))
        return self.out(torch.cat([x, up], 1))


def unet() -> Step:
    return _train(UNet(), torch.randn(2, 3, 16, 16, requires_grad=True))


def bert() -> Step:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    embedding = nn.Embedding(100, 32)
    model = nn.Sequential(embedding, layer, nn.LayerNorm(32), nn.Linear(32, 100))
    return _train(model, torch.randint(0, 100, (2, 12)))


class Grouped(nn.Module):
    """Causal attention in which four heads of queries share two of keys, and a gated block behind it."""

    def __init__(self, causal: bool = True, heads: int = 4, shared: int = 2) -> None:
        super().__init__()
        self.causal, self.heads, self.shared = causal, heads, shared
        self.q, self.kv = nn.Linear(32, 32, bias=False), nn.Linear(32, 16 * shared, bias=False)
        self.o = nn.Linear(32, 32, bias=False)
        self.gate, self.up, self.down = nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, self.heads, 8).transpose(1, 2)
        k, v = self.kv(x).view(batch, length, self.shared, 16).transpose(1, 2).chunk(2, -1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.heads != self.shared)
        x = x + self.o(out.transpose(1, 2).reshape(batch, length, 32))
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def llama() -> Step:
    return _train(nn.Sequential(Grouped(heads=4, shared=4), Grouped(heads=4, shared=4)), torch.randn(2, 12, 32))


def grouped_queries() -> Step:
    return _train(Grouped(), torch.randn(2, 12, 32, requires_grad=True))


class Patches(nn.Module):
    """Images to patches, as a vision transformer begins."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, 32, 4, 4)
        self.block = Grouped(causal=False, heads=4, shared=4)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(self.cut(x).flatten(2).transpose(1, 2)).mean(1))


def vit() -> Step:
    return _train(Patches(), torch.randn(2, 3, 16, 16))


class Experts(nn.Module):
    """Four experts as a batch of matrices, and a router: dense, so that the arithmetic is the same in every run."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 4)
        self.first = nn.Parameter(torch.randn(4, 16, 32))
        self.second = nn.Parameter(torch.randn(4, 32, 16))
        self.bias = nn.Parameter(torch.randn(4, 1, 32))

    def forward(self, x: Tensor) -> Tensor:
        weights = self.router(x).softmax(-1)
        inner = torch.baddbmm(self.bias, x.expand(4, *x.shape), self.first)
        return torch.einsum("eth,te->th", torch.bmm(F.gelu(inner), self.second), weights)


def experts() -> Step:
    return _train(Experts(), torch.randn(10, 16))


def lstm() -> Step:
    return _train(nn.LSTM(8, 16, 2, batch_first=True), torch.randn(3, 5, 8))


def gan() -> Step:
    up = [nn.ConvTranspose2d(8, 8, 4, 1, 0), nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1)]
    down = [nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 1, 4)]
    return _train(nn.Sequential(*up, nn.Tanh(), *down), torch.randn(4, 8, 1, 1))


MODELS: dict[str, Callable[[], Step]] = {
    "resnet": resnet,
    "depthwise": depthwise,
    "unet": unet,
    "bert": bert,
    "llama": llama,
    "grouped_queries": grouped_queries,
    "vit": vit,
    "experts": experts,
    "lstm": lstm,
    "gan": gan,
}
