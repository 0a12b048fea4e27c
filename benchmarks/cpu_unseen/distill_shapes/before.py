"""Distil a wide convolutional teacher into a small student on synthetic shape images."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

WARMUP = 5


class Shapes(Dataset):
    """Squares, bars and crosses at random places, with noise."""

    def __init__(self, n=768, size=32, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.x = 0.3 * torch.randn(n, 3, size, size, generator=g)
        self.y = torch.randint(0, 6, (n,), generator=g)
        pos = torch.randint(2, size - 12, (n, 2), generator=g)
        for i in range(n):
            r, c = pos[i].tolist()
            kind, channel = self.y[i].item() % 3, self.y[i].item() // 3
            if kind == 0:
                self.x[i, channel, r:r + 8, c:c + 8] += 1
            elif kind == 1:
                self.x[i, channel, r:r + 10, c:c + 3] += 1
            else:
                self.x[i, channel, r + 4:r + 6, c:c + 10] += 1
                self.x[i, channel, r:r + 10, c + 4:c + 6] += 1

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def conv_block(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


def make_net(width, classes=6):
    return nn.Sequential(
        conv_block(3, width),
        conv_block(width, width, stride=2),
        conv_block(width, 2 * width),
        conv_block(2 * width, 2 * width, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, classes),
    )


def pretrain(teacher, data, batches=2):
    """Stand-in for loading the teacher's checkpoint."""
    opt = torch.optim.SGD(teacher.parameters(), lr=0.05)
    for i in range(batches):
        x, y = data.x[i * 64:(i + 1) * 64], data.y[i * 64:(i + 1) * 64]
        opt.zero_grad()
        F.cross_entropy(teacher(x), y).backward()
        opt.step()


def distillation_loss(student_logits, teacher_logits, target, temperature, alpha):
    soft = F.kl_div(
        F.log_softmax(student_logits / temperature, dim=1),
        F.softmax(teacher_logits / temperature, dim=1),
        reduction="batchmean",
    )
    hard = F.cross_entropy(student_logits, target)
    return alpha * temperature ** 2 * soft + (1 - alpha) * hard


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--temperature", type=float, default=4.0)
    parser.add_argument("--alpha", type=float, default=0.7)
    args = parser.parse_args()
    torch.manual_seed(0)

    data = Shapes()
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    teacher, student = make_net(48), make_net(16)
    pretrain(teacher, data)
    teacher.eval()
    student.train()
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)

    step, start, running = 0, time.perf_counter(), 0.0
    while step < args.steps:
        for images, labels in loader:
            if step == WARMUP:
                start = time.perf_counter()
            teacher_logits = teacher(images)
            student_logits = student(images)
            loss = distillation_loss(student_logits, teacher_logits, labels,
                                     args.temperature, args.alpha)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running = 0.9 * running + 0.1 * loss.item()
            step += 1
            if step % 20 == 0:
                print(f"step {step}: loss {running:.4f}")
            if step == args.steps:
                break
    elapsed = time.perf_counter() - start
    print(f"final loss {loss.item():.5f}")
    print(f"mean step {1000 * elapsed / max(1, step - WARMUP):.2f} ms")


if __name__ == "__main__":
    main()
