"""Knowledge distillation of a residual CNN into a small student on 32x32 images."""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

N_CLASSES = 20
TEMPERATURE = 4.0
ALPHA = 0.7


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.bn2(self.conv2(h)))


class ResNet(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.stage1 = nn.Sequential(*[Residual(width) for _ in range(blocks)])
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.stage2 = nn.Sequential(*[Residual(2 * width) for _ in range(blocks)])
        self.head = nn.Linear(2 * width, N_CLASSES)

    def forward(self, x):
        x = self.stage1(F.relu(self.stem(x)))
        x = self.stage2(F.relu(self.down(x)))
        return self.head(x.mean(dim=(2, 3)))


class Images:
    """Class prototypes plus noise, with random flips."""

    def __init__(self, n, seed):
        self.gen = torch.Generator().manual_seed(seed)
        prototypes = torch.randn(N_CLASSES, 3, 32, 32, generator=self.gen)
        self.y = torch.randint(0, N_CLASSES, (n,), generator=self.gen)
        self.x = 0.6 * prototypes[self.y] + torch.randn(n, 3, 32, 32, generator=self.gen)

    def batch(self, size):
        idx = torch.randint(0, len(self.y), (size,), generator=self.gen)
        x = self.x[idx]
        flip = torch.rand(size, generator=self.gen) < 0.5
        x = torch.where(flip[:, None, None, None], x.flip(3), x)
        return x, self.y[idx]


def distillation_loss(student_logits, teacher_logits, labels):
    soft_target = F.softmax(teacher_logits / TEMPERATURE, dim=1)
    log_student = F.log_softmax(student_logits / TEMPERATURE, dim=1)
    soft = F.kl_div(log_student, soft_target, reduction="batchmean") * TEMPERATURE ** 2
    hard = F.cross_entropy(student_logits, labels)
    return ALPHA * soft + (1 - ALPHA) * hard


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = Images(3000, seed=0)
    teacher = ResNet(width=32, blocks=2)
    teacher.eval()
    student = ResNet(width=16, blocks=2)
    student.train()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.02, momentum=0.9, nesterov=True)

    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        x, y = data.batch(48)
        teacher_logits = teacher(x)
        student_logits = student(x)
        loss = distillation_loss(student_logits, teacher_logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        agree = (student_logits.argmax(1) == teacher_logits.argmax(1)).float().mean().item()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.6f} agree {agree:.3f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
