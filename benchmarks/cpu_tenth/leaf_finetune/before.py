"""Adapt an image backbone to a small leaf-disease data set (linear probe on
top of the pretrained features, with light augmentation)."""
import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

CLASSES = ("healthy", "rust", "blight", "mildew", "mosaic")


@dataclass
class Config:
    checkpoint: Path
    batch_size: int = 16
    lr: float = 1e-2
    weight_decay: float = 1e-4
    image_size: int = 64
    seed: int = 3


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = None
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        identity = x if self.down is None else self.down(x)
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + identity)


class SmallResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        self.layers = nn.Sequential(
            BasicBlock(32, 32), BasicBlock(32, 64, 2), BasicBlock(64, 128, 2), BasicBlock(128, 128)
        )
        self.out_features = 128

    def forward(self, x):
        return self.layers(self.stem(x)).mean(dim=(2, 3))


class LeafClassifier(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.out_features, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def make_leaves(n, size, seed):
    """Green discs with class-dependent spots, uint8 (n, 3, size, size)."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, len(CLASSES), (n,), generator=g)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    disc = ((xx**2 + yy**2) < 0.8).float()
    images = torch.rand(n, 3, size, size, generator=g) * 40
    images[:, 1] += 120 * disc
    spots = (torch.rand(n, size // 4, size // 4, generator=g) < 0.05 * labels.view(-1, 1, 1)).float()
    spots = F.interpolate(spots.unsqueeze(1), size=(size, size))[:, 0] * disc
    images[:, 0] += spots * 150
    images[:, 1] -= spots * 20 * labels.view(-1, 1, 1)
    return images.clamp(0, 255).to(torch.uint8), labels


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        backbone = SmallResNet()
        backbone.load_state_dict(torch.load(cfg.checkpoint))
        self.model = LeafClassifier(backbone, len(CLASSES)).to(memory_format=torch.channels_last)
        # only the new layer is trained, the pretrained features stay as they are
        self.optimizer = torch.optim.SGD(
            self.model.head.parameters(), lr=cfg.lr, momentum=0.9, weight_decay=cfg.weight_decay
        )
        self.images, self.labels = make_leaves(800, cfg.image_size, cfg.seed)
        self.mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
        self.order = torch.randperm(len(self.labels))
        self.cursor = 0

    def next_batch(self):
        if self.cursor + self.cfg.batch_size > len(self.order):
            self.order = torch.randperm(len(self.labels))
            self.cursor = 0
        idx = self.order[self.cursor:self.cursor + self.cfg.batch_size]
        self.cursor += self.cfg.batch_size
        x = self.images[idx].float().div_(255)
        if torch.rand(()) < 0.5:
            x = x.flip(3)
        x = (x - self.mean) / self.std
        return x.contiguous(memory_format=torch.channels_last), self.labels[idx]

    def train_step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def fit(self, steps):
        self.model.train()
        # keep the pretrained running statistics
        self.model.backbone.eval()
        losses = []
        for _ in range(steps):
            losses.append(self.train_step(*self.next_batch()))
        return torch.stack(losses[-20:]).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        checkpoint = Path(tmp) / "backbone.pt"
        torch.manual_seed(1)
        torch.save(SmallResNet().state_dict(), checkpoint)
        trainer = Trainer(Config(checkpoint))
    loss = trainer.fit(args.steps)
    print(f"steps {args.steps}  mean loss of the last steps {loss:.4f}")


if __name__ == "__main__":
    main()
