"""MoCo-v3 style pre-training (no queue) of a small CNN on synthetic texture images."""
import argparse
import copy
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    parser = argparse.ArgumentParser("moco")
    parser.add_argument("--images", default=2048, type=int)
    parser.add_argument("--image-size", default=32, type=int)
    parser.add_argument("--batch-size", default=192, type=int)
    parser.add_argument("--epochs", default=4, type=int)
    parser.add_argument("--dim", default=128, type=int)
    parser.add_argument("--temperature", default=0.2, type=float)
    parser.add_argument("--momentum", default=0.99, type=float)
    parser.add_argument("--lr", default=1.5e-3, type=float)
    parser.add_argument("--wd", default=0.05, type=float)
    parser.add_argument("--warmup-iters", default=8, type=int)
    parser.add_argument("--print-freq", default=5, type=int)
    parser.add_argument("--seed", default=0, type=int)
    return parser.parse_args()


def make_textures(n, size, n_classes=10, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(n_classes, (n,), generator=g)
    grid = torch.linspace(0, 1, size)
    angle = (y + 0.3 * torch.rand(n, generator=g)) * math.pi / n_classes
    freq = 3 + (y % 3) * 2 + torch.rand(n, generator=g)
    phase = 6.28 * torch.rand(n, generator=g)
    arg = (angle.cos()[:, None, None] * grid[None, :, None] + angle.sin()[:, None, None] * grid[None, None, :])
    base = torch.sin(6.28 * freq[:, None, None] * arg + phase[:, None, None])
    tint = torch.rand(n, 3, 1, 1, generator=g)
    x = 0.5 + 0.3 * base[:, None] * tint + 0.05 * torch.randn(n, 3, size, size, generator=g)
    return x.clamp(0, 1), y


class BatchAugment:
    """Crop-resize, flip, brightness/contrast and channel mixing, drawn per image."""

    def __init__(self, scale=(0.4, 1.0)):
        self.scale = scale

    def __call__(self, x):
        n = x.size(0)
        s = torch.empty(n).uniform_(*self.scale).sqrt()
        flip = torch.where(torch.rand(n) < 0.5, -1.0, 1.0)
        theta = torch.zeros(n, 2, 3)
        theta[:, 0, 0] = s * flip
        theta[:, 1, 1] = s
        theta[:, :, 2] = (torch.rand(n, 2) * 2 - 1) * (1 - s).unsqueeze(1)
        x = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False)
        contrast = torch.empty(n, 1, 1, 1).uniform_(0.6, 1.4)
        bright = torch.empty(n, 1, 1, 1).uniform_(-0.2, 0.2)
        x = (x - 0.5) * contrast + 0.5 + bright
        grey = (torch.rand(n, 1, 1, 1) < 0.2).float()
        return x + grey * (x.mean(1, keepdim=True) - x)


def mlp(dims):
    layers = []
    for i, (a, b) in enumerate(zip(dims, dims[1:])):
        layers.append(nn.Linear(a, b, bias=False))
        layers.append(nn.BatchNorm1d(b, affine=i < len(dims) - 2))
        if i < len(dims) - 2:
            layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class ConvEncoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        def block(i, o, s):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
        self.body = nn.Sequential(block(3, width, 2), block(width, 2 * width, 2),
                                  block(2 * width, 2 * width, 1), block(2 * width, 4 * width, 2))
        self.out_dim = 4 * width

    def forward(self, x):
        return self.body(x).mean((2, 3))


class MoCo(nn.Module):
    def __init__(self, dim, T):
        super().__init__()
        enc = ConvEncoder()
        self.T = T
        self.base = nn.Sequential(enc, mlp([enc.out_dim, 256, dim]))
        self.momentum_encoder = copy.deepcopy(self.base)
        self.momentum_encoder.requires_grad_(False)
        self.predictor = mlp([dim, 256, dim])

    @torch.no_grad()
    def update_momentum(self, m):
        for p, q in zip(self.base.parameters(), self.momentum_encoder.parameters()):
            q.lerp_(p, 1 - m)

    def contrastive_loss(self, q, k):
        logits = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).t() / self.T
        labels = torch.arange(logits.size(0))
        acc = (logits.detach().argmax(1) == labels).float().mean()
        return F.cross_entropy(logits, labels) * (2 * self.T), acc

    def forward(self, x1, x2, m):
        q1 = self.predictor(self.base(x1))
        q2 = self.predictor(self.base(x2))
        with torch.no_grad():
            self.update_momentum(m)
            k1 = self.momentum_encoder(x1)
            k2 = self.momentum_encoder(x2)
        l1, a1 = self.contrastive_loss(q1, k2)
        l2, a2 = self.contrastive_loss(q2, k1)
        return l1 + l2, (a1 + a2) / 2


class Meter:
    def __init__(self, fmt):
        self.fmt, self.n, self.total, self.last = fmt, 0, 0.0, 0.0

    def update(self, v):
        self.last, self.n, self.total = v, self.n + 1, self.total + v

    def __str__(self):
        return f"{self.fmt % self.last} ({self.fmt % (self.total / max(self.n, 1))})"


@torch.no_grad()
def knn_accuracy(encoder, x, y, k=10, n_query=256):
    encoder.eval()
    f = F.normalize(torch.cat([encoder(c) for c in x[:1024].split(256)]), dim=1)
    sim = f[:n_query] @ f[n_query:].t()
    votes = y[n_query:1024][sim.topk(k, dim=1).indices]
    encoder.train()
    return (votes.mode(dim=1).values == y[:n_query]).float().mean().item()


def adjust(opt, step, total, args):
    if step < args.warmup_iters:
        lr = args.lr * (step + 1) / args.warmup_iters
    else:
        r = (step - args.warmup_iters) / (total - args.warmup_iters)
        lr = args.lr * 0.5 * (1 + math.cos(math.pi * r))
    for g in opt.param_groups:
        g["lr"] = lr
    return 1 - 0.5 * (1 + math.cos(math.pi * step / total)) * (1 - args.momentum)


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    images, labels = make_textures(args.images, args.image_size)
    model = MoCo(args.dim, args.temperature)
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], args.lr, weight_decay=args.wd)
    augment = BatchAugment()
    iters = args.images // args.batch_size
    for epoch in range(args.epochs):
        order = torch.randperm(args.images)
        meters = {"time": Meter("%.3f"), "loss": Meter("%.4f"), "acc": Meter("%.3f")}
        end = time.time()
        for i in range(iters):
            x = images[order[i * args.batch_size:(i + 1) * args.batch_size]]
            m = adjust(opt, epoch * iters + i, args.epochs * iters, args)
            loss, acc = model(augment(x), augment(x), m)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if not math.isfinite(loss.item()):
                sys.exit("loss diverged")
            meters["loss"].update(loss.item())
            meters["acc"].update(acc.item())
            meters["time"].update(time.time() - end)
            end = time.time()
            if (i + 1) % args.print_freq == 0:
                print(f"Epoch [{epoch}][{i + 1}/{iters}]  " + "  ".join(f"{k} {v}" for k, v in meters.items()))
    print(f"kNN accuracy {knn_accuracy(model.base[0], images, labels):.3f}")


if __name__ == "__main__":
    main()
