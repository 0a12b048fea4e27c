"""Morphology scores for a strip of a sky survey: cut-outs around catalogued
sources are classified in batches by a trained network."""
import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

KINDS = ("elliptical", "spiral", "edge-on", "merger", "star")
STAMP = 64
STRIP = (3, 1024, 4096)


def write_strip(folder, sources=1500, seed=15):
    """Image strip (uint16 counts, memory-mappable) and source catalogue."""
    rng = np.random.default_rng(seed)
    strip = rng.normal(400, 15, STRIP).astype(np.float32)
    x = rng.integers(STAMP // 2, STRIP[2] - STAMP // 2, sources)
    y = rng.integers(STAMP // 2, STRIP[1] - STAMP // 2, sources)
    r = np.arange(-STAMP // 2, STAMP // 2)
    yy, xx = np.meshgrid(r, r, indexing="ij")
    for cx, cy in zip(x, y):
        a, q = rng.uniform(2, 9), rng.uniform(0.3, 1.0)
        profile = np.exp(-np.sqrt((xx / a) ** 2 + (yy / (a * q)) ** 2)).astype(np.float32)
        flux = rng.uniform(200, 4000, 3).astype(np.float32)
        strip[:, cy - STAMP // 2:cy + STAMP // 2, cx - STAMP // 2:cx + STAMP // 2] += flux[:, None, None] * profile
    np.save(folder / "strip.npy", np.clip(strip, 0, 65535).astype(np.uint16))
    np.save(folder / "catalogue.npy", np.stack([y, x], axis=1))


def conv_bn(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


def build_model(seed=17):
    torch.manual_seed(seed)
    return nn.Sequential(
        conv_bn(3, 32, 2),
        conv_bn(32, 64, 1),
        conv_bn(64, 64, 2),
        conv_bn(64, 128, 2),
        conv_bn(128, 128, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, len(KINDS)),
    )


def deploy(model):
    """Evaluation form: batch norms folded into the convolutions."""
    model.eval()
    layers = []
    for part in model:
        if isinstance(part, nn.Sequential):
            layers += [fuse_conv_bn_eval(part[0], part[1]), part[2]]
        else:
            layers.append(part)
    return nn.Sequential(*layers).eval().to(memory_format=torch.channels_last)


def stamps(strip, catalogue, batch):
    """Batches of stretched cut-outs; starts over at the end of the catalogue."""
    half = STAMP // 2
    while True:
        for start in range(0, len(catalogue) - batch + 1, batch):
            counts = np.empty((batch, STAMP, STAMP, 3), np.float32)
            for row, (y, x) in zip(counts, catalogue[start:start + batch]):
                row[:] = strip[:, y - half:y + half, x - half:x + half].transpose(1, 2, 0)
            images = torch.from_numpy(counts).permute(0, 3, 1, 2)
            yield images.sub_(400).div_(100).asinh_()


@torch.inference_mode()
def survey(model, batches, steps):
    totals = torch.zeros(len(KINDS))
    seen = 0
    for _, images in zip(range(steps), batches):
        totals += model(images).softmax(dim=1).sum(dim=0)
        seen += len(images)
    return totals / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        write_strip(folder)
        strip = np.load(folder / "strip.npy", mmap_mode="r")
        catalogue = np.load(folder / "catalogue.npy")
        model = deploy(build_model())
        share = survey(model, stamps(strip, catalogue, 32), args.steps)
    print("batches", args.steps, " ", "  ".join(f"{k} {v:.4f}" for k, v in zip(KINDS, share.tolist())))


if __name__ == "__main__":
    main()
