"""Unsupervised domain adaptation with a multi-kernel MMD loss (DAN)."""
import argparse
import json
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


class Net(nn.Module):
    def __init__(self, width, features, classes):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            ResBlock(width, 2 * width, 1), ResBlock(2 * width, 4 * width, 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.bottleneck = nn.Linear(4 * width, features)
        self.classifier = nn.Linear(features, classes)

    def forward(self, x):
        features = F.relu(self.bottleneck(self.backbone(x)))
        return features, self.classifier(features)


def squared_distances(x, y):
    sq = x.square().sum(-1)[:, None] + y.square().sum(-1)[None] - 2 * x @ y.T
    return sq.clamp_min(0)


def gaussian_kernels(x, y, kernel_mul=2.0, kernel_num=5):
    """Sum of RBF kernels whose bandwidths are spread around the mean distance."""
    total = torch.cat([x, y])
    dist = squared_distances(total, total)
    n = len(total)
    bandwidth = dist.detach().sum() / (n * n - n) / kernel_mul ** (kernel_num // 2)
    return sum(torch.exp(-dist / (bandwidth * kernel_mul ** i)) for i in range(kernel_num))


def mmd(source, target):
    b = len(source)
    k = gaussian_kernels(source, target)
    return k[:b, :b].mean() + k[b:, b:].mean() - 2 * k[:b, b:].mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--trade-off", type=float, default=1.0)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_cuda = device.type == "cuda"
    if args.small:
        count, batch_size, width, features = 128, 16, 8, 32
    else:
        count, batch_size, width, features = 8192, 1024, 64, 256
    classes = 31

    with device:
        model = Net(width, features, classes)
        # small enough to be held on the device; the target domain is darker and noisier
        source_x = torch.randn(count, 3, 32, 32)
        source_y = torch.randint(0, classes, (count,))
        target_x = 0.9 * torch.randn(count, 3, 32, 32) - 0.1
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9, weight_decay=5e-4,
                                nesterov=True, fused=use_cuda)

    def train_step():
        i = torch.randint(0, count, (batch_size,), device=device)
        j = torch.randint(0, count, (batch_size,), device=device)
        images = torch.cat([source_x[i], target_x[j]]).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_cuda):
            feats, logits = model(images)
        feats, logits = feats.float(), logits.float()
        cls_loss = F.cross_entropy(logits[:batch_size], source_y[i])
        transfer_loss = mmd(feats[:batch_size], feats[batch_size:])
        loss = cls_loss + args.trade_off * transfer_loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return torch.stack([cls_loss.detach(), transfer_loss.detach()])

    for _ in range(5):
        train_step()
    if use_cuda:
        torch.cuda.synchronize()
    losses = []
    start = time.perf_counter()
    for _ in range(args.steps):
        losses.append(train_step())
    if use_cuda:
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    cls_loss, transfer_loss = torch.stack(losses).mean(0).tolist()
    print(f"mean cls loss {cls_loss:.4f} mean mmd {transfer_loss:.4f}")
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
