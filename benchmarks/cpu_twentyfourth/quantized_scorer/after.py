"""Score product photos with an int8 network (static post-training quantization)."""
import argparse
import warnings

import torch
import torch.nn as nn
from torch.ao.quantization import (DeQuantStub, QuantStub, convert, fuse_modules,
                                   get_default_qconfig, prepare)

warnings.filterwarnings("ignore")


class PhotoStream:
    """Smooth random pictures with a bright object, normalised floats."""

    def __init__(self, batch_size, size=96, pool=64, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        coarse = torch.randn(pool, 3, size // 8, size // 8, generator=self.gen)
        self.images = nn.functional.interpolate(coarse, size=(size, size), mode="bilinear")
        self.images += 0.2 * torch.randn(self.images.shape, generator=self.gen)
        self.batch_size = batch_size

    def next(self):
        i = torch.randint(len(self.images), (self.batch_size,), generator=self.gen)
        return self.images[i]


class ConvReLU(nn.Sequential):
    def __init__(self, cin, cout, kernel, stride=1, groups=1):
        super().__init__(
            nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(),
        )


class SeparableBlock(nn.Module):
    """Depthwise then pointwise convolution."""

    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.depthwise = ConvReLU(cin, cin, 3, stride, groups=cin)
        self.pointwise = ConvReLU(cin, cout, 1)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


class Stem(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.quant = QuantStub()
        self.conv = ConvReLU(3, width, 3, stride=2)

    def forward(self, x):
        return self.conv(self.quant(x))


class Head(nn.Module):
    def __init__(self, width, outputs):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(width, outputs)
        self.dequant = DeQuantStub()

    def forward(self, x):
        x = self.pool(x).flatten(1)
        return self.dequant(self.fc(x))


class PhotoScorer(nn.Module):
    def __init__(self, width=32, outputs=6):
        super().__init__()
        self.stem = Stem(width)
        self.blocks = nn.Sequential(
            SeparableBlock(width, width),
            SeparableBlock(width, width),
            SeparableBlock(width, width),
            SeparableBlock(width, 2 * width, stride=2),
            SeparableBlock(2 * width, 2 * width),
            SeparableBlock(2 * width, 2 * width),
            SeparableBlock(2 * width, 4 * width, stride=2),
            SeparableBlock(4 * width, 4 * width),
        )
        self.head = Head(4 * width, outputs)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


def init_as_trained(model, seed=0):
    """Weights and statistics with the scale of a trained network."""
    gen = torch.Generator().manual_seed(seed)
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            fan = m.weight[0].numel()
            m.weight.data.copy_(torch.randn(m.weight.shape, generator=gen) * (2.0 / fan) ** 0.5)
        elif isinstance(m, nn.BatchNorm2d):
            m.weight.data.uniform_(0.8, 1.2, generator=gen)
            m.bias.data.uniform_(-0.1, 0.1, generator=gen)
        elif isinstance(m, nn.Linear):
            m.weight.data.copy_(torch.randn(m.weight.shape, generator=gen) * 0.1)
    return model


def settle_batch_norm(model, stream, batches=4):
    model.train()
    with torch.no_grad():
        for _ in range(batches):
            model(stream.next())
    return model.eval()


def quantize(model, stream, batches=4, backend="x86"):
    torch.backends.quantized.engine = backend
    model.qconfig = get_default_qconfig(backend)
    for m in model.modules():
        if isinstance(m, ConvReLU):
            fuse_modules(m, ["0", "1", "2"], inplace=True)
    prepare(model, inplace=True)
    with torch.no_grad():
        for _ in range(batches):
            model(stream.next())
    return convert(model, inplace=True)


@torch.inference_mode()
def score(model, images):
    probabilities = model(images).softmax(1)
    grades = torch.arange(1, probabilities.size(1) + 1, dtype=torch.float32)
    return probabilities @ grades


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=24)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = init_as_trained(PhotoScorer())
    model = settle_batch_norm(model, PhotoStream(8, seed=1))
    model = quantize(model, PhotoStream(8, seed=2))

    stream = PhotoStream(args.batch_size, seed=3)
    total, best = 0.0, 0.0
    for _ in range(args.steps):
        grades = score(model, stream.next())
        total += grades.mean().item()
        best = max(best, grades.max().item())
    print(f"{total / args.steps + best:.6f}")


if __name__ == "__main__":
    main()
