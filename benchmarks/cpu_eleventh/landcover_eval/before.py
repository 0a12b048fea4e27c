"""Validation of a land-cover model on satellite tiles: mean IoU from a confusion matrix."""
import argparse

import torch
import torch.nn as nn

CLASSES = ["water", "forest", "crop", "meadow", "urban", "bare", "wetland"]
BANDS = 6
TILE = 64


class TileSource:
    """Synthetic multispectral tiles: smooth class regions, per-class spectra, sensor noise."""

    def __init__(self, n=60, seed=17):
        self.n = n
        self.g = torch.Generator().manual_seed(seed)
        self.spectra = torch.rand(len(CLASSES), BANDS, generator=self.g)

    def __iter__(self):
        for _ in range(self.n):
            coarse = torch.randn(1, len(CLASSES), 6, 6, generator=self.g)
            field = nn.functional.interpolate(coarse, size=(TILE, TILE), mode="bicubic")
            label = field.argmax(dim=1)
            image = self.spectra[label].permute(0, 3, 1, 2)
            image = image + 0.15 * torch.randn(image.shape, generator=self.g)
            yield image.contiguous(memory_format=torch.channels_last), label


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1),
        nn.ReLU(inplace=True),
    )


class SmallUNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.enc1 = block(BANDS, width)
        self.enc2 = block(width, 2 * width)
        self.mid = block(2 * width, 2 * width)
        self.dec2 = block(4 * width, width)
        self.dec1 = block(2 * width, width)
        self.out = nn.Conv2d(width, len(CLASSES), 1)

    def forward(self, x):
        pool = nn.functional.max_pool2d
        up = nn.functional.interpolate
        a = self.enc1(x)
        b = self.enc2(pool(a, 2))
        c = self.mid(pool(b, 2))
        d = self.dec2(torch.cat([up(c, scale_factor=2), b], dim=1))
        e = self.dec1(torch.cat([up(d, scale_factor=2), a], dim=1))
        return self.out(e)


class MeanIoU:
    def __init__(self, n_classes):
        self.n_classes = n_classes
        self.matrix = torch.zeros(n_classes, n_classes, dtype=torch.long)

    def update(self, pred, target):
        # rows: ground truth, columns: prediction
        for t, p in zip(target.view(-1), pred.view(-1)):
            self.matrix[t, p] += 1

    def compute(self):
        hit = self.matrix.diag().double()
        union = self.matrix.sum(0) + self.matrix.sum(1) - self.matrix.diag()
        return (hit / union.clamp(min=1)).mean().item()


class Evaluator:
    def __init__(self, model, metrics):
        self.model = model
        self.metrics = metrics

    @torch.inference_mode()
    def run(self, source):
        self.model.eval()
        for image, label in source:
            pred = self.model(image).argmax(dim=1)
            for metric in self.metrics.values():
                metric.update(pred, label)
        return {name: metric.compute() for name, metric in self.metrics.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = SmallUNet().to(memory_format=torch.channels_last)
    evaluator = Evaluator(model, {"mIoU": MeanIoU(len(CLASSES))})
    result = evaluator.run(TileSource(n=args.steps))
    print(f"mIoU over {args.steps} tiles: {result['mIoU']:.6f}")


if __name__ == "__main__":
    main()
