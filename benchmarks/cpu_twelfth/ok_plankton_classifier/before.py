"""Plankton image classification: depthwise-separable CNN, random flips, cosine schedule."""
import argparse

import torch
import torch.nn as nn

CLASSES, SIZE = 10, 48


def make_plankton(n, seed=31):
    """Greyscale silhouettes: class sets elongation and number of lobes."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (n,), generator=g)
    axis = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    angle = torch.rand(n, 1, 1, generator=g) * 6.28
    u = xx * angle.cos() + yy * angle.sin()
    v = yy * angle.cos() - xx * angle.sin()
    stretch = 1 + 0.25 * (labels % 5)[:, None, None]
    lobes = (2 + labels // 2)[:, None, None]
    theta = torch.atan2(v * stretch, u)
    radius = torch.sqrt(u ** 2 + (v * stretch) ** 2)
    body = torch.sigmoid((0.5 + 0.15 * torch.cos(lobes * theta) - radius) * 20)
    images = body + 0.2 * torch.randn(n, SIZE, SIZE, generator=g)
    images = (images - images.mean()) / images.std()
    return images.unsqueeze(1).contiguous(), labels


class Separable(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(cin, cin, 3, stride, 1, groups=cin, bias=False),
            nn.BatchNorm2d(cin),
            nn.ReLU(inplace=True),
            nn.Conv2d(cin, cout, 1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.body(x)


def build_model(width=32):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, 2, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        Separable(width, 2 * width, 1),
        Separable(2 * width, 4 * width, 2),
        Separable(4 * width, 4 * width, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, CLASSES),
    )


class Batches:
    """Shuffled batches from memory; half of them mirrored."""

    def __init__(self, images, labels, batch_size, seed=2):
        self.images, self.labels, self.batch_size = images, labels, batch_size
        self.g = torch.Generator().manual_seed(seed)

    def __iter__(self):
        while True:
            order = torch.randperm(len(self.images), generator=self.g)
            for idx in order.split(self.batch_size):
                if len(idx) < self.batch_size:
                    continue
                x = self.images[idx]
                if torch.rand((), generator=self.g) < 0.5:
                    x = x.flip(-1)
                yield x.contiguous(memory_format=torch.channels_last), self.labels[idx]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()

    torch.manual_seed(0)
    images, labels = make_plankton(1500)
    batches = iter(Batches(images, labels, args.batch_size))
    model = build_model().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True,
                                weight_decay=1e-4, fused=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(args.steps, 1))
    criterion = nn.CrossEntropyLoss()

    model.train()
    loss_sum = torch.zeros(())
    hits = torch.zeros((), dtype=torch.long)
    for _ in range(args.steps):
        x, y = next(batches)
        logits = model(x)
        loss = criterion(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        loss_sum += loss.detach()
        hits += (logits.detach().argmax(dim=1) == y).sum()
    n = max(args.steps, 1)
    print(f"train loss {loss_sum.item() / n:.3f} accuracy {hits.item() / (n * args.batch_size):.3f}")


if __name__ == "__main__":
    main()
