"""Post-training static int8 quantization of a weld-defect classifier, and its run over the inspection line."""
import argparse
import statistics
import time
import warnings

import numpy as np
import torch
import torch.ao.quantization as tq
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore", category=UserWarning)  # observers and the quantized dtypes are chatty
CLASSES = ["sound", "pore", "crack", "undercut"]


def make_welds(n, size=64, seed=0):
    """Grey images of a weld seam with at most one defect."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
    labels = rng.integers(0, len(CLASSES), n)
    images = np.empty((n, 1, size, size), dtype=np.float32)
    for i, kind in enumerate(labels):
        centre = size / 2 + rng.normal(0, 3)
        seam = np.exp(-((yy - centre) / 9) ** 2) * (1 + 0.2 * np.sin(xx / rng.uniform(2, 3)))
        x0 = rng.uniform(12, size - 12)
        if kind == 1:
            seam -= 0.8 * np.exp(-(((xx - x0) ** 2 + (yy - centre) ** 2) / rng.uniform(6, 14)))
        elif kind == 2:
            seam -= 0.8 * np.exp(-((yy - centre - 0.4 * (xx - x0)) / 1.2) ** 2) * (np.abs(xx - x0) < 12)
        elif kind == 3:
            seam -= 0.7 * np.exp(-((yy - centre - 9) / 2.0) ** 2)
        images[i, 0] = seam + rng.normal(0, 0.08, (size, size))
    return torch.from_numpy(images), torch.from_numpy(labels)


class ConvBNReLU(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn = nn.BatchNorm2d(cout)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.bn(self.conv(x)))


class WeldNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.quant = tq.QuantStub()
        self.features = nn.Sequential(
            ConvBNReLU(1, width), ConvBNReLU(width, width), ConvBNReLU(width, 2 * width, 2),
            ConvBNReLU(2 * width, 2 * width), ConvBNReLU(2 * width, 4 * width, 2), ConvBNReLU(4 * width, 4 * width, 2),
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(4 * width, len(CLASSES))
        self.dequant = tq.DeQuantStub()

    def forward(self, x):
        x = self.pool(self.features(self.quant(x))).flatten(1)
        return self.dequant(self.classifier(x))


def load_checkpoint(images, labels):
    """Stands for a trained network: settles the norms' statistics and fits the classifier by ridge regression."""
    model = WeldNet()
    with torch.no_grad():
        for m in model.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.momentum = None
                m.weight.uniform_(0.6, 1.4)
                m.bias.uniform_(-0.2, 0.4)
        for chunk in images.split(32):
            model(chunk)
        model.eval()
        x = torch.cat([model.pool(model.features(chunk)).flatten(1) for chunk in images.split(32)])
        mean = x.mean(0)
        target = 6 * (nn.functional.one_hot(labels, len(CLASSES)).float() - 0.25)
        gram = (x - mean).T @ (x - mean) + 0.5 * torch.eye(x.size(1))
        weight = torch.linalg.solve(gram, (x - mean).T @ target).T
        model.classifier.weight.copy_(weight)
        model.classifier.bias.copy_(target.mean(0) - weight @ mean)
    return model


@torch.inference_mode()
def quantize(model, calibration):
    model.qconfig = tq.get_default_qconfig("x86")
    prepared = tq.prepare(model)
    for chunk in calibration.split(32):
        prepared(chunk)
    return tq.convert(prepared)


@torch.inference_mode()
def inspect(model, loader, steps):
    scores, correct, times = [], torch.zeros((), dtype=torch.long), []
    while len(scores) < steps:
        tick = time.perf_counter()
        for images, labels in loader:
            scores.append(model(images).log_softmax(1))
            correct += (scores[-1].argmax(1) == labels).sum()
            now = time.perf_counter()
            times.append(now - tick)
            tick = now
            if len(scores) >= steps:
                break
    scores = torch.cat(scores)
    return scores, correct.item() / len(scores), times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40, help="batches to inspect")
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.backends.quantized.engine = "x86"

    images, labels = make_welds(1536)
    float_model = load_checkpoint(images[:512], labels[:512])
    model = quantize(float_model, images[:128])
    loader = DataLoader(TensorDataset(images[512:], labels[512:]), batch_size=args.batch_size, drop_last=True)

    scores, accuracy, times = inspect(model, loader, args.steps)
    counts = scores.argmax(1).bincount(minlength=len(CLASSES)).tolist()
    print("verdicts " + ", ".join(f"{name} {c}" for name, c in zip(CLASSES, counts)))
    print(f"accuracy {accuracy:.4f}")
    print(f"loss {-scores.amax(1).mean().item():.4f}")
    print(f"step {1000 * statistics.median(times[5:]):.2f} ms")


if __name__ == "__main__":
    main()
