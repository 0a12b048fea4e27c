"""Person re-identification baseline: small ResNet, ID loss + batch-hard triplet loss."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_IDS = 120
IMGS_PER_ID = 8
IMG_H, IMG_W = 32, 16


def make_gallery(seed=0):
    """Synthetic market-like crops: each identity has its own colour pattern plus camera noise."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(NUM_IDS, 3, IMG_H // 8, IMG_W // 8)).astype(np.float32)
    base = base.repeat(8, axis=2).repeat(8, axis=3)
    images = base[:, None] + 2.0 * rng.normal(size=(NUM_IDS, IMGS_PER_ID, 3, IMG_H, IMG_W)).astype(np.float32)
    return torch.from_numpy(images)


class PKSampler:
    """P identities, K images of each per batch."""

    def __init__(self, images, p, k, seed=1):
        self.images, self.p, self.k = images, p, k
        self.rng = np.random.default_rng(seed)

    def next(self):
        pids = self.rng.choice(NUM_IDS, self.p, replace=False)
        cams = np.stack([self.rng.choice(IMGS_PER_ID, self.k, replace=False) for _ in pids])
        pid_idx = torch.from_numpy(pids).repeat_interleave(self.k)
        cam_idx = torch.from_numpy(cams.reshape(-1))
        return self.images[pid_idx, cam_idx], pid_idx


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride):
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
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        return F.relu(out + identity, inplace=True)


class ReIDNet(nn.Module):
    def __init__(self, num_classes, width=12):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 5, 2, 2, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.layers = nn.Sequential(
            BasicBlock(width, width, 1), BasicBlock(width, 2 * width, 2), BasicBlock(2 * width, 4 * width, 2))
        self.bottleneck = nn.BatchNorm1d(4 * width)
        self.bottleneck.bias.requires_grad_(False)
        self.classifier = nn.Linear(4 * width, num_classes, bias=False)

    def forward(self, x):
        feat = self.layers(self.stem(x)).mean(dim=(2, 3))
        return feat, self.classifier(self.bottleneck(feat))


class TripletLoss(nn.Module):
    """Triplet loss with hard positive/negative mining (Hermans et al., 2017)."""

    def __init__(self, margin=0.3):
        super().__init__()
        self.ranking_loss = nn.MarginRankingLoss(margin=margin)

    def forward(self, inputs, targets):
        n = inputs.size(0)
        # pairwise euclidean distance
        sq = inputs.pow(2).sum(dim=1, keepdim=True)
        dist = sq + sq.t() - 2 * inputs @ inputs.t()
        dist = dist.clamp(min=1e-12).sqrt()
        # for each anchor, find the hardest positive and negative
        mask = targets.expand(n, n).eq(targets.expand(n, n).t())
        dist_ap, dist_an = [], []
        for i in range(n):
            dist_ap.append(dist[i][mask[i]].max().unsqueeze(0))
            dist_an.append(dist[i][mask[i] == 0].min().unsqueeze(0))
        dist_ap = torch.cat(dist_ap)
        dist_an = torch.cat(dist_an)
        y = torch.ones_like(dist_an)
        return self.ranking_loss(dist_an, dist_ap, y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--p", type=int, default=32)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()

    torch.manual_seed(0)
    sampler = PKSampler(make_gallery(), args.p, args.k)
    model = ReIDNet(NUM_IDS)
    xent = nn.CrossEntropyLoss(label_smoothing=0.1)
    triplet = TripletLoss(margin=0.3)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=args.lr, momentum=0.9, weight_decay=5e-4)

    model.train()
    last_id = last_tri = float("nan")
    for _ in range(args.steps):
        images, pids = sampler.next()
        feat, logits = model(images)
        id_loss = xent(logits, pids)
        tri_loss = triplet(feat, pids)
        loss = id_loss + tri_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last_id, last_tri = id_loss.item(), tri_loss.item()
    print(f"steps {args.steps} id_loss {last_id:.3f} triplet_loss {last_tri:.3f}")


if __name__ == "__main__":
    main()
