"""Train a ResNet-50 breed classifier on JPEG images."""
import argparse
import io
import json
import random
import resource
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from transformers import ResNetConfig, ResNetForImageClassification

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)


def make_jpegs(count, rng):
    """Encode a small collection of synthetic pictures as JPEG byte strings."""
    files = []
    for _ in range(count):
        coarse = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        img = Image.fromarray(coarse).resize((288, 216), Image.BICUBIC)
        noisy = np.asarray(img, dtype=np.int16) + rng.integers(-12, 12, (216, 288, 1))
        buf = io.BytesIO()
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(buf, "JPEG", quality=90)
        files.append(buf.getvalue())
    return files


class PetsDataset(Dataset):
    """JPEG images with random-resized-crop and flip augmentation."""

    def __init__(self, files, labels, image_size, seed=0):
        self.files = files
        self.labels = labels
        self.image_size = image_size
        self.seed = seed

    def __len__(self):
        return len(self.labels)

    def random_resized_crop(self, img, rng):
        w, h = img.size
        area = w * h * rng.uniform(0.35, 1.0)
        ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        cw = int(min(w, round((area * ratio) ** 0.5)))
        ch = int(min(h, round((area / ratio) ** 0.5)))
        x = int(rng.integers(0, w - cw + 1))
        y = int(rng.integers(0, h - ch + 1))
        size = (self.image_size, self.image_size)
        return img.resize(size, Image.BILINEAR, box=(x, y, x + cw, y + ch))

    def __getitem__(self, idx):
        rng = np.random.default_rng((self.seed, idx))
        img = Image.open(io.BytesIO(self.files[idx % len(self.files)])).convert("RGB")
        img = self.random_resized_crop(img, rng)
        if rng.random() < 0.5:
            img = img.transpose(Image.FLIP_LEFT_RIGHT)
        arr = (np.asarray(img, dtype=np.float32) / 255.0 - MEAN) / STD
        return torch.from_numpy(arr.transpose(2, 0, 1).copy()), self.labels[idx]


def build_model(small, num_classes):
    if small:
        cfg = ResNetConfig(embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1],
                           num_labels=num_classes)
    else:
        cfg = ResNetConfig(num_labels=num_classes)
    return ResNetForImageClassification(cfg)


def train_step(model, optimizer, images, labels, device):
    images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
    labels = labels.to(device, non_blocking=True)
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        logits = model(pixel_values=images).logits
        loss = F.cross_entropy(logits.float(), labels, label_smoothing=0.1)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--lr", type=float, default=0.02)
    args = parser.parse_args()

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch_size, image_size = (8, 64) if args.small else (48, 160)
    warmup, num_classes = 10, 37

    rng = np.random.default_rng(0)
    files = make_jpegs(32 if args.small else 320, rng)
    labels = rng.integers(0, num_classes, (args.steps + 40) * batch_size)
    dataset = PetsDataset(files, labels, image_size)
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True,
                        pin_memory=device.type == "cuda")

    model = build_model(args.small, num_classes)
    model = model.to(device, memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9,
                                weight_decay=5e-4, nesterov=True)

    batches = iter(loader)
    for _ in range(warmup):
        images, target = next(batches)
        train_step(model, optimizer, images, target, device)

    if device.type == "cuda":
        torch.cuda.synchronize()
    running = torch.zeros((), device=device)
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        images, target = next(batches)
        running += train_step(model, optimizer, images, target, device)
        if step % 20 == 0:
            print(f"step {step} avg loss {running.item() / step:.4f}")
    if device.type == "cuda":
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    print(f"final avg loss {running.item() / args.steps:.4f}")
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
