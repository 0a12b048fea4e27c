"""Keyword spotting with a deep temporal-convolution net and averaged weights."""
import argparse
import copy
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class TCBlock(nn.Module):
    """Time-channel separable residual unit."""

    def __init__(self, channels, kernel):
        super().__init__()
        self.depth = nn.Conv1d(channels, channels, kernel, padding=kernel // 2, groups=channels)
        self.bn1 = nn.BatchNorm1d(channels)
        self.point = nn.Conv1d(channels, channels, 1)
        self.bn2 = nn.BatchNorm1d(channels)

    def forward(self, x):
        h = F.relu(self.bn1(self.depth(x)))
        return F.relu(x + self.bn2(self.point(h)))


class KeywordNet(nn.Module):
    def __init__(self, mels=40, channels=64, blocks=12, words=12):
        super().__init__()
        self.front = nn.Conv1d(mels, channels, 5, stride=2, padding=2)
        self.blocks = nn.Sequential(*[TCBlock(channels, 9) for _ in range(blocks)])
        self.head = nn.Linear(channels, words)

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.front(x))).mean(2))


class WeightAverage:
    """Exponential moving average of parameters and buffers for evaluation."""

    def __init__(self, model, decay=0.995):
        self.decay = decay
        self.shadow = copy.deepcopy(model).eval()
        self.updates = 0

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for name, averaged in self.shadow.state_dict().items():
            current = model.state_dict()[name]
            if averaged.dtype.is_floating_point:
                averaged.lerp_(current, 1 - decay)
            else:
                averaged.copy_(current)


def spectrograms(batch, words, gen):
    """Log-mel-like patches: a word is a pattern of moving formants."""
    bank = torch.randn(words, 40, 64, generator=gen)
    smooth = F.avg_pool1d(bank, 5, stride=1, padding=2)
    while True:
        label = torch.randint(words, (batch,), generator=gen)
        x = smooth[label] + 0.8 * torch.randn(batch, 40, 64, generator=gen)
        yield mask_augment(x, gen), label


def mask_augment(x, gen):
    t0 = int(torch.randint(0, 54, (), generator=gen))
    f0 = int(torch.randint(0, 34, (), generator=gen))
    x[:, :, t0 : t0 + 8] = 0
    x[:, f0 : f0 + 6] = 0
    return x


@torch.no_grad()
def accuracy(model, held_out):
    x, y = held_out
    return (model(x).argmax(1) == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=12)
    args = ap.parse_args()

    torch.manual_seed(0)
    stream = spectrograms(args.batch, 12, torch.Generator().manual_seed(5))
    held_out = next(stream)
    model = KeywordNet()
    average = WeightAverage(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.steps)

    start = time.perf_counter()
    for step in range(args.steps):
        if step == 5:
            start = time.perf_counter()
        x, y = next(stream)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        average.update(model)
        if (step + 1) % 20 == 0:
            acc = accuracy(average.shadow, held_out)
            print(f"step {step + 1} loss {loss.item():.4f} averaged acc {acc:.3f}")
    took = time.perf_counter() - start
    print(f"mean step {took / max(1, args.steps - 5) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
