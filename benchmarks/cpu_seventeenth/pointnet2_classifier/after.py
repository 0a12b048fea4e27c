"""PointNet++ (SSG) shape classification on synthetic surfaces."""
import argparse
import math
from datetime import datetime

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SHAPES = ["sphere", "cube", "cylinder", "cone", "torus", "plane"]


def sample_shape(name, n, g):
    a = 2 * math.pi * torch.rand(n, generator=g)
    b = torch.rand(n, generator=g)
    if name == "sphere":
        p = torch.randn(n, 3, generator=g)
        return p / p.norm(dim=1, keepdim=True)
    if name == "cube":
        p = 2 * torch.rand(n, 3, generator=g) - 1
        face = torch.randint(3, (n,), generator=g)
        p[torch.arange(n), face] = torch.where(b < 0.5, -1.0, 1.0)
        return p
    if name == "cylinder":
        return torch.stack([a.cos(), a.sin(), 2 * b - 1], 1)
    if name == "cone":
        r = b.sqrt()
        return torch.stack([r * a.cos(), r * a.sin(), 1 - 2 * r], 1)
    if name == "torus":
        c = 2 * math.pi * b
        r = 0.7 + 0.3 * c.cos()
        return torch.stack([r * a.cos(), r * a.sin(), 0.3 * c.sin()], 1)
    p = 2 * torch.rand(n, 3, generator=g) - 1
    p[:, 2] *= 0.05
    return p


def build_dataset(n_clouds, n_points, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(len(SHAPES), (n_clouds,), generator=g)
    clouds = []
    for k in y.tolist():
        p = sample_shape(SHAPES[k], n_points, g) + 0.02 * torch.randn(n_points, 3, generator=g)
        p = p * (0.7 + 0.6 * torch.rand(3, generator=g))
        p = p - p.mean(0)
        clouds.append(p / p.norm(dim=1).max())
    return TensorDataset(torch.stack(clouds), y)


def augment(xyz):
    b = xyz.size(0)
    t = 2 * math.pi * torch.rand(b)
    z, o = torch.zeros(b), torch.ones(b)
    rot = torch.stack([t.cos(), -t.sin(), z, t.sin(), t.cos(), z, z, z, o], 1).view(b, 3, 3)
    return xyz @ rot + 0.01 * torch.randn_like(xyz).clamp_(-3, 3)


def square_distance(src, dst):
    d = -2 * src @ dst.transpose(1, 2)
    d += src.pow(2).sum(-1, keepdim=True)
    return d + dst.pow(2).sum(-1).unsqueeze(1)


def index_points(points, idx):
    b = torch.arange(points.size(0)).view(-1, *[1] * (idx.dim() - 1))
    return points[b, idx]


def query_ball_point(radius, nsample, xyz, new_xyz):
    """Indices of the first nsample points of xyz within radius of every new_xyz, padded with
    the first of them."""
    B, N, _ = xyz.shape
    S = new_xyz.size(1)
    group_idx = torch.arange(N).view(1, 1, N).repeat(B, S, 1)
    group_idx[square_distance(new_xyz, xyz) > radius ** 2] = N
    group_idx = group_idx.topk(nsample, dim=-1, largest=False)[0]
    group_first = group_idx[:, :, :1].expand(-1, -1, nsample)
    return torch.where(group_idx == N, group_first, group_idx)


class SetAbstraction(nn.Module):
    def __init__(self, npoint, radius, nsample, in_channel, mlp):
        super().__init__()
        self.npoint, self.radius, self.nsample = npoint, radius, nsample
        layers, c = [], in_channel + 3
        for out in mlp:
            layers += [nn.Conv2d(c, out, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
            c = out
        self.mlp = nn.Sequential(*layers)

    def forward(self, xyz, feats):
        centers = torch.rand(xyz.shape[:2]).argsort(1)[:, :self.npoint]
        new_xyz = index_points(xyz, centers)
        idx = query_ball_point(self.radius, self.nsample, xyz, new_xyz)
        grouped = index_points(xyz, idx) - new_xyz.unsqueeze(2)
        if feats is not None:
            grouped = torch.cat([grouped, index_points(feats, idx)], dim=-1)
        x = self.mlp(grouped.permute(0, 3, 2, 1))          # B, C, nsample, npoint
        return new_xyz, x.max(2)[0].transpose(1, 2)


class PointNet2(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.sa1 = SetAbstraction(256, 0.2, 16, 0, [16, 16, 32])
        self.sa2 = SetAbstraction(64, 0.4, 16, 32, [32, 32, 64])
        self.global_mlp = nn.Sequential(nn.Linear(67, 128), nn.ReLU(inplace=True), nn.Linear(128, 128))
        self.head = nn.Sequential(nn.Linear(128, 64), nn.BatchNorm1d(64), nn.ReLU(inplace=True),
                                  nn.Dropout(0.4), nn.Linear(64, n_classes))

    def forward(self, xyz):
        p1, f1 = self.sa1(xyz, None)
        p2, f2 = self.sa2(p1, f1)
        g = self.global_mlp(torch.cat([p2, f2], -1)).max(1)[0]
        return self.head(g)


@torch.no_grad()
def test(model, loader):
    model.eval()
    correct = n = 0
    for xyz, y in loader:
        correct += (model(xyz).argmax(1) == y).sum().item()
        n += len(y)
    model.train()
    return correct / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--clouds", type=int, default=320)
    ap.add_argument("--points", type=int, default=1024)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    train_set = build_dataset(args.clouds, args.points, 0)
    test_loader = DataLoader(build_dataset(16, args.points, 1), args.batch_size)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    model = PointNet2(len(SHAPES))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    best = 0.0
    for epoch in range(args.epochs):
        began, loss_sum, correct = datetime.now(), 0.0, 0
        for xyz, y in train_loader:
            logits = model(augment(xyz))
            loss = F.cross_entropy(logits, y, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item()
            correct += (logits.argmax(1) == y).sum().item()
        scheduler.step()
        per_step = (datetime.now() - began).total_seconds() / len(train_loader)
        acc = test(model, test_loader)
        best = max(best, acc)
        print(f"Epoch {epoch + 1}: loss {loss_sum / len(train_loader):.5f} "
              f"train acc {correct / len(train_set):.3f} test acc {acc:.3f} ({per_step:.3f} s/batch)")
    print(f"Best instance accuracy {best:.3f}")


if __name__ == "__main__":
    main()
