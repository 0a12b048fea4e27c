"""Beat-by-beat classification of 12-lead ECG recordings: convolutions, then an LSTM."""
import argparse
import json
import math
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def conv_block(cin, cout, stride):
    return nn.Sequential(nn.Conv1d(cin, cout, 7, stride=stride, padding=3, bias=False),
                         nn.BatchNorm1d(cout), nn.ReLU(inplace=True))


class StackedLSTM(nn.Module):
    """Two LSTM layers, batch first."""

    def __init__(self, features, hidden):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


class ECGNet(nn.Module):
    def __init__(self, leads, width, hidden, classes):
        super().__init__()
        self.front = nn.Sequential(conv_block(leads, width, 2), conv_block(width, width, 2),
                                   conv_block(width, 2 * width, 2))
        self.lstm = StackedLSTM(2 * width, hidden)
        self.classifier = nn.Linear(hidden, classes)

    def forward(self, signal):
        features = self.front(signal).transpose(1, 2)
        return self.classifier(self.lstm(features))


def recordings(count, leads, length, classes, device):
    """Noisy rhythms of different rates; every eighth sample carries a beat label."""
    time_axis = torch.arange(length, device=device) / 250
    labels = torch.randint(0, classes, (count,), device=device)
    rate = 1.0 + 0.4 * labels.float()
    lead_gain = torch.randn(leads, 1, device=device)
    signal = lead_gain * torch.sin(2 * math.pi * rate[:, None, None] * time_axis)
    signal = signal + 0.3 * torch.randn(count, leads, length, device=device)
    return signal, labels[:, None].expand(-1, length // 8)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_cuda = device.type == "cuda"
    if args.small:
        count, length, batch_size, width, hidden = 32, 200, 4, 8, 16
    else:
        count, length, batch_size, width, hidden = 1024, 2000, 128, 64, 512
    leads, classes = 12, 5

    with device:
        model = ECGNet(leads, width, hidden, classes)
    signals, labels = recordings(count, leads, length, classes, device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=use_cuda)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)

    def train_step():
        idx = torch.randint(0, count, (batch_size,), device=device)
        logits = model(signals[idx])
        loss = F.cross_entropy(logits.flatten(0, 1), labels[idx].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        scheduler.step()
        return loss.detach()

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

    losses = torch.stack(losses).cpu()
    print(f"loss first {losses[0]:.4f} last {losses[-1]:.4f} mean {losses.mean():.4f}")
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
