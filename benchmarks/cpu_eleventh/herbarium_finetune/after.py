"""Fine-tune the last stage of a pretrained CNN on a small set of pressed-leaf scans."""
import argparse
import tempfile
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

SPECIES = 10
SIZE = 96


def conv_bn(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class LeafNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.backbone = nn.Sequential(
            conv_bn(3, 32, stride=2),
            conv_bn(32, 48),
            conv_bn(48, 64, stride=2),
            conv_bn(64, 96),
            conv_bn(96, 96, stride=2),
        )
        self.stage = nn.Sequential(conv_bn(96, 128), conv_bn(128, 128))
        self.head = nn.Linear(128, n_classes)

    def classify(self, features):
        return self.head(self.stage(features).mean(dim=(2, 3)))

    def forward(self, images):
        return self.classify(self.backbone(images))


def write_pretrained(path):
    """Stands in for the checkpoint that comes with the model zoo."""
    torch.manual_seed(42)
    torch.save(LeafNet(1000).state_dict(), path)


def load_pretrained(path, n_classes):
    state = torch.load(path, weights_only=True)
    state = {k: v for k, v in state.items() if not k.startswith("head.")}
    model = LeafNet(n_classes)
    model.load_state_dict(state, strict=False)
    return model.to(memory_format=torch.channels_last)


def make_scans(n=240, seed=9):
    """Leaf silhouettes: the lobe count and the colour depend on the species."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, SPECIES, (n,), generator=g)
    axis = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    angle, radius = torch.atan2(yy, xx), (xx ** 2 + yy ** 2).sqrt()
    scans = torch.empty(n, 3, SIZE, SIZE)
    for i, label in enumerate(labels.tolist()):
        phase = 6.28 * torch.rand(1, generator=g)
        edge = 0.6 + 0.2 * torch.cos((label % 5 + 2) * angle + phase)
        leaf = torch.sigmoid((edge - radius) * 20)
        tint = torch.tensor([0.2 + 0.06 * (label // 5), 0.5, 0.15 + 0.05 * (label % 3)])
        scans[i] = 0.9 - leaf * (0.9 - tint.view(3, 1, 1))
        scans[i] += 0.05 * torch.randn(3, SIZE, SIZE, generator=g)
    return scans.contiguous(memory_format=torch.channels_last), labels


class FineTuner:
    def __init__(self, model, images, labels, batch_size=16, lr=0.01):
        self.model = model
        self.images, self.labels = images, labels
        self.batch_size = batch_size
        self.g = torch.Generator().manual_seed(4)
        for p in model.backbone.parameters():
            p.requires_grad_(False)
        trainable = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(trainable, lr=lr, momentum=0.9, fused=True)

    def set_train_mode(self):
        self.model.train()
        self.model.backbone.eval()  # keep the pretrained running statistics

    @torch.no_grad()
    def extract(self):
        parts = [self.model.backbone(x) for x in self.images.split(self.batch_size)]
        return torch.cat(parts)

    def step(self, idx):
        logits = self.model.classify(self.features[idx])
        loss = F.cross_entropy(logits, self.labels[idx])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def epoch(self):
        order = torch.randperm(len(self.labels), generator=self.g)
        yield from order.split(self.batch_size)

    def fit(self, steps):
        self.set_train_mode()
        self.features = self.extract()
        losses = []
        while len(losses) < steps:
            for idx in self.epoch():
                losses.append(self.step(idx))
                if len(losses) == steps:
                    break
        tail = losses[-15:]
        return sum(tail) / len(tail)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "leafnet.pt"
        write_pretrained(path)
        torch.manual_seed(0)
        model = load_pretrained(path, SPECIES)

    images, labels = make_scans()
    tuner = FineTuner(model, images, labels)
    print(f"loss over the last epoch: {tuner.fit(args.steps):.3f}")


if __name__ == "__main__":
    main()
