"""Music tagging: a convolutional-recurrent tagger on log-mel clips with training telemetry."""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

TAGS = 50
N_MELS = 64
FRAMES = 192


def make_clips(count, rng):
    """Clips as sums of tag-specific spectral patterns, each with its own rhythm."""
    profile = rng.gamma(0.5, 1.0, (TAGS, N_MELS)).astype(np.float32)
    tempo = rng.uniform(0.05, 0.6, TAGS).astype(np.float32)
    labels = (rng.random((count, TAGS)) < 0.08).astype(np.float32)
    frames = np.arange(FRAMES, dtype=np.float32)
    rhythm = 0.5 + 0.5 * np.sin(tempo[:, None] * frames)
    patterns = profile[:, :, None] * rhythm[:, None, :]
    clips = np.tensordot(labels, patterns, axes=1)
    clips = np.log1p(clips + 0.1 * rng.random(clips.shape, dtype=np.float32))
    return torch.from_numpy(clips.astype(np.float32)), torch.from_numpy(labels)


class Tagger(nn.Module):
    def __init__(self, channels=(24, 48, 96), hidden=160):
        super().__init__()
        blocks, c_in = [], 1
        for c_out in channels:
            blocks += [
                nn.Conv2d(c_in, c_out, 3, padding=1, bias=False),
                nn.BatchNorm2d(c_out),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(2),
            ]
            c_in = c_out
        self.features = nn.Sequential(*blocks)
        self.recurrent = nn.GRU(c_in * N_MELS // 8, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, TAGS))

    def forward(self, mel):
        h = self.features(mel.unsqueeze(1))
        h = h.permute(0, 3, 1, 2).flatten(2)
        h, _ = self.recurrent(h)
        return self.head(h.amax(dim=1))


class Telemetry:
    """Health of the run: spread of weights and gradients of every layer."""

    def __init__(self, every):
        self.every = every
        self.levels = torch.tensor([0.01, 0.5, 0.99])
        self.layers = {}

    @torch.no_grad()
    def collect(self, model):
        for name, param in model.named_parameters():
            if param.ndim < 2:
                continue
            weight = torch.quantile(param.flatten(), self.levels)
            grad = torch.quantile(param.grad.abs().flatten(), self.levels)
            ratio = param.grad.norm() / param.norm()
            self.layers[name] = (weight, grad, ratio)

    def report(self, step):
        if step % self.every:
            return
        spread = max((w[2] - w[0]).item() for w, _, _ in self.layers.values())
        median = sum(g[1].item() for _, g, _ in self.layers.values()) / len(self.layers)
        ratio = max(r.item() for _, _, r in self.layers.values())
        print(f"  telemetry: weight spread {spread:.4f}  median |grad| {median:.3e}  grad/weight {ratio:.3e}")


def precision_at_k(logits, labels, k=5):
    top = logits.topk(k, dim=1).indices
    return labels.gather(1, top).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=29)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    clips, labels = make_clips(400, rng)

    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    telemetry = Telemetry(every=20)

    times = []
    model.train()
    for step in range(args.steps):
        start = time.perf_counter()
        idx = torch.randint(len(clips), (args.batch_size,))
        shift = int(rng.integers(FRAMES))
        mel = clips[idx].roll(shift, dims=2)
        logits = model(mel)
        loss = F.binary_cross_entropy_with_logits(logits, labels[idx])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if step % telemetry.every == 0:
            telemetry.collect(model)
        optimizer.step()
        telemetry.report(step)
        times.append(time.perf_counter() - start)
        if step % 10 == 0 or step == args.steps - 1:
            precision = precision_at_k(logits.detach(), labels[idx]).item()
            print(f"step {step:3d}  loss {loss.item():.4f}  precision@5 {precision:.3f}")

    print(f"step_ms: {1000 * statistics.median(times):.1f}")


if __name__ == "__main__":
    main()
