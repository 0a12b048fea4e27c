"""Few-shot identification of minerals from Raman spectra (second-order MAML).

Each task is five minerals, three spectra each to adapt on; the outer loss is taken on ten others.
"""
import argparse
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

BINS, WAYS, SHOTS, QUERIES = 256, 5, 3, 10


class Minerals:
    """Library of peak lists; spectra are drawn with shifts, broadening, background and noise."""

    def __init__(self, count, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.position = torch.rand(count, 5, generator=self.g) * BINS
        self.height = torch.rand(count, 5, generator=self.g) ** 2
        self.axis = torch.arange(BINS)

    def spectra(self, mineral):
        g = self.g
        shape = mineral.shape
        shift = 2 * torch.randn(*shape, 1, generator=g)
        width = 2 + 2 * torch.rand(*shape, 1, 1, generator=g)
        centre = (self.position[mineral] + shift)[..., None]
        peaks = torch.exp(-0.5 * ((self.axis - centre) / width) ** 2)
        signal = (self.height[mineral][..., None] * peaks).sum(-2)
        slope = torch.rand(*shape, 1, generator=g) * self.axis / BINS
        return signal + slope + 0.05 * torch.randn(signal.shape, generator=g)

    def tasks(self, count):
        ranks = torch.rand(count, len(self.position), generator=self.g).argsort(1)[:, :WAYS]
        per = SHOTS + QUERIES
        mineral = ranks[:, :, None].expand(-1, -1, per)
        x = self.spectra(mineral)
        y = torch.arange(WAYS)[None, :, None].expand(count, -1, per)
        split = lambda t: (t[:, :, :SHOTS].flatten(1, 2), t[:, :, SHOTS:].flatten(1, 2))
        (xs, xq), (ys, yq) = split(x), split(y)
        return xs, ys, xq, yq


class SpectrumNet(nn.Module):
    def __init__(self, width=224):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(BINS, 2 * width), nn.GELU(), nn.LayerNorm(2 * width),
                                  nn.Linear(2 * width, width), nn.GELU(), nn.LayerNorm(width))
        self.head = nn.Linear(width, WAYS)

    def forward(self, x):
        return self.head(self.body(x))


class Maml:
    def __init__(self, model, inner_steps, inner_lr):
        self.model, self.inner_steps = model, inner_steps
        self.rate = nn.ParameterDict({k.replace(".", "_"): torch.tensor(inner_lr)
                                      for k, _ in model.named_parameters()})

    def parameters(self):
        return [*self.model.parameters(), *self.rate.parameters()]

    def _task(self, params, xs, ys, xq, yq):
        def support_loss(p):
            return F.cross_entropy(functional_call(self.model, p, (xs,)), ys)

        for _ in range(self.inner_steps):
            g = grad(support_loss)(params)
            params = {k: v - self.rate[k.replace(".", "_")] * g[k] for k, v in params.items()}
        logits = functional_call(self.model, params, (xq,))
        return F.cross_entropy(logits, yq), (logits.argmax(1) == yq).float().mean()

    def loss(self, batch):
        params = dict(self.model.named_parameters())
        losses, hits = vmap(self._task, in_dims=(None, 0, 0, 0, 0))(params, *batch)
        return losses.mean(), hits.mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--tasks", type=int, default=8)
    ap.add_argument("--inner", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(0)

    train, test = Minerals(300, seed=1), Minerals(60, seed=2)
    maml = Maml(SpectrumNet(), args.inner, 0.05)
    opt = torch.optim.Adam(maml.parameters(), lr=1e-3, fused=True)
    held = test.tasks(12)

    times = []
    for step in range(1, args.steps + 1):
        t0 = time.perf_counter()
        loss, hit = maml.loss(train.tasks(args.tasks))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(maml.parameters(), 5.0)
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            with torch.no_grad():
                held_loss, held_hit = maml.loss(held)
            print(f"step {step}  loss {loss.item():.4f}  hit {hit.item():.3f}  "
                  f"unseen minerals: loss {held_loss.item():.4f} hit {held_hit.item():.3f}")
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
