"""Transfer: an attention-pooling head is trained on top of a pretrained convolutional backbone."""
import os
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)

CLASSES = 12
SIZE = 48
BATCH = 8
STEPS = 90
WARMUP = 4
HEAD_LR = 2e-3


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Identity() if cin == cout and stride == 1 else nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x))


def build_backbone():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        Residual(32, 32, 1),
        Residual(32, 64, 2),
        Residual(64, 64, 1),
        Residual(64, 96, 2),
    )


class AttentionPool(nn.Module):
    """Learned queries attend over the feature map; their readings are classified."""

    def __init__(self, channels, queries=4):
        super().__init__()
        self.query = nn.Parameter(torch.randn(queries, channels) * 0.1)
        self.key = nn.Linear(channels, channels)
        self.value = nn.Linear(channels, channels)
        self.classify = nn.Sequential(nn.LayerNorm(queries * channels), nn.Linear(queries * channels, CLASSES))

    def forward(self, feats):
        tokens = feats.flatten(2).transpose(1, 2)
        weight = (self.query @ self.key(tokens).transpose(1, 2) / tokens.shape[-1] ** 0.5).softmax(-1)
        return self.classify((weight @ self.value(tokens)).flatten(1))


class Probe(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.head = AttentionPool(96)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()        # running statistics stay those of the pretraining
        return self

    def forward(self, x):
        with torch.no_grad():
            feats = self.backbone(x)
        return self.head(feats)


class Textures:
    """Oriented gratings: the class is orientation times frequency."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.row, self.col = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")

    def batch(self):
        label = torch.randint(0, CLASSES, (BATCH,), generator=self.g)
        angle = (label % 6).float() * torch.pi / 6
        freq = 0.35 + 0.3 * (label // 6).float()
        phase = torch.rand(BATCH, generator=self.g) * 6.28
        along = angle.cos()[:, None, None] * self.row + angle.sin()[:, None, None] * self.col
        wave = (freq[:, None, None] * along + phase[:, None, None]).sin().unsqueeze(1)
        return wave + 0.8 * torch.randn(BATCH, 3, SIZE, SIZE, generator=self.g), label


def pretrained_checkpoint(folder):
    """Stands in for a downloaded checkpoint."""
    torch.manual_seed(71)
    source = build_backbone()
    source.train()
    with torch.no_grad():
        for _ in range(12):
            source(Textures(5).batch()[0])
    path = os.path.join(folder, "backbone.pt")
    torch.save(source.state_dict(), path)
    return path


def main():
    with tempfile.TemporaryDirectory() as folder:
        backbone = build_backbone()
        backbone.load_state_dict(torch.load(pretrained_checkpoint(folder)))
    torch.manual_seed(72)
    model = Probe(backbone).train()
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=HEAD_LR, weight_decay=0.01)
    data = Textures(6)
    times, losses, right = [], [], 0
    for step in range(STEPS):
        start = time.perf_counter()
        image, label = data.batch()
        logits = model(image)
        loss = F.cross_entropy(logits, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        losses.append(loss.item())
        right += (logits.argmax(1) == label).sum().item() if step >= STEPS - 20 else 0
        if step % 20 == 0:
            print(f"step {step:3d}  loss {losses[-1]:.4f}")
    mean = sum(times[WARMUP:]) / len(times[WARMUP:])
    print(f"final loss {sum(losses[-10:]) / 10:.5f}  accuracy {right / (20 * BATCH):.3f}")
    print(f"mean step time {mean * 1000:.2f} ms")


if __name__ == "__main__":
    main()
