"""Knowledge distillation of a small image classifier from a larger teacher.

Gradients are accumulated over several micro-batches because the teacher does
not leave much memory on our box.
"""
import argparse
import logging
import os
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("distill")


class ToyImages(Dataset):
    """32x32 images whose class decides the orientation of a grating."""

    def __init__(self, count, classes, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, classes, count)
        yy, xx = np.mgrid[0:32, 0:32] / 32.0
        angle = self.labels / classes * np.pi
        wave = np.sin(12 * (np.cos(angle)[:, None, None] * xx + np.sin(angle)[:, None, None] * yy))
        noise = rng.normal(0, 0.8, (count, 3, 32, 32))
        self.images = (wave[:, None] + noise).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], int(self.labels[i])


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Identity() if cin == cout and stride == 1 else nn.Conv2d(cin, cout, 1, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.skip(x))


def resnet(widths, classes):
    layers, cin = [nn.Conv2d(3, widths[0], 3, 2, 1)], widths[0]
    for i, w in enumerate(widths):
        layers += [Residual(cin, w, 1 if i == 0 else 2)]
        cin = w
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, classes)]
    return nn.Sequential(*layers)


class DistillationLoss(nn.Module):
    """alpha * soft targets (KL at a temperature) + (1 - alpha) * hard labels."""

    def __init__(self, temperature=4.0, alpha=0.7):
        super().__init__()
        self.t = temperature
        self.alpha = alpha

    def forward(self, student_logits, teacher_logits, labels):
        soft = F.kl_div(F.log_softmax(student_logits / self.t, dim=1),
                        F.softmax(teacher_logits / self.t, dim=1), reduction="batchmean")
        hard = F.cross_entropy(student_logits, labels)
        return self.alpha * self.t ** 2 * soft + (1 - self.alpha) * hard


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--classes", type=int, default=10)
    ap.add_argument("--micro-batch", type=int, default=16)
    ap.add_argument("--accumulate", type=int, default=2)
    ap.add_argument("--teacher-weights", help="state dict of the teacher")
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 150)))
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s:%(name)s:%(message)s")

    torch.manual_seed(31)
    teacher = resnet((32, 64, 96), args.classes)
    if args.teacher_weights:
        teacher.load_state_dict(torch.load(args.teacher_weights, map_location="cpu"))
    teacher.eval()
    student = resnet((8, 16, 24), args.classes)
    student.train()

    # many repeats of a small set: one worker feeds the whole run
    data = ToyImages(2000, args.classes, seed=31)
    sampler = torch.utils.data.RandomSampler(data, num_samples=args.steps * args.micro_batch * args.accumulate,
                                             replacement=True)
    loader = DataLoader(data, batch_size=args.micro_batch, sampler=sampler, num_workers=1)
    criterion = DistillationLoss()
    optimizer = torch.optim.SGD(student.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)

    times, updates, running = [], 0, 0.0
    start = time.perf_counter()
    for i, (images, labels) in enumerate(loader, 1):
        with torch.no_grad():
            teacher_logits = teacher(images)
        student_logits = student(images)
        loss = criterion(student_logits, teacher_logits, labels) / args.accumulate
        loss.backward()
        running += loss.item()
        if i % args.accumulate:
            continue
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        updates += 1
        now = time.perf_counter()
        times.append(now - start)
        start = now
        if updates % 25 == 0:
            log.info("update %d loss %.6f", updates, running / 25)
            running = 0.0
    print(f"last loss {loss.item() * args.accumulate:.6f}")
    print(f"step {statistics.median(times[5:]) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
