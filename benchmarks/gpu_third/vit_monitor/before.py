"""Train a small vision transformer and keep a run log of its losses and gradients."""
import argparse
import json
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class ViT(nn.Module):
    def __init__(self, size, patch, dim, depth, heads, classes):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, stride=patch)
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(dim),
                                             enable_nested_tensor=False)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        return self.head(self.encoder(x).mean(dim=1))


class RunLog:
    """Collects the numbers of every step; `summary` averages them for the console."""

    def __init__(self, model):
        self.names = [name for name, _ in model.named_parameters()]
        self.params = list(model.parameters())
        self.sample_losses, self.grad_norms, self.weight_norms = [], [], []

    def record(self, sample_losses):
        self.sample_losses.append([loss.item() for loss in sample_losses])
        self.grad_norms.append([p.grad.norm().item() for p in self.params])
        self.weight_norms.append([p.detach().norm().item() for p in self.params])

    def summary(self, last):
        losses = torch.tensor(self.sample_losses[-last:])
        grads = torch.tensor(self.grad_norms[-last:]).mean(0)
        weights = torch.tensor(self.weight_norms[-last:]).mean(0)
        top = int(grads.argmax())
        return (f"loss {losses.mean():.4f} hardest {losses.amax(1).mean():.4f} "
                f"grad {grads.norm():.4f} weights {weights.norm():.3f} largest {self.names[top]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--print-every", type=int, default=20)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_cuda = device.type == "cuda"
    if args.small:
        size, patch, dim, depth, heads, batch_size, count = 32, 8, 32, 2, 2, 4, 64
    else:
        size, patch, dim, depth, heads, batch_size, count = 224, 16, 384, 12, 6, 96, 1024
    classes = 100

    with device:
        model = ViT(size, patch, dim, depth, heads, classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05, fused=use_cuda)
    log = RunLog(model)
    images = torch.randn(count, 3, size, size, device=device)
    labels = torch.randint(0, classes, (count,), device=device)

    def train_step():
        idx = torch.randint(0, count, (batch_size,), device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_cuda):
            logits = model(images[idx])
        sample_losses = F.cross_entropy(logits.float(), labels[idx], label_smoothing=0.1,
                                        reduction="none")
        sample_losses.mean().backward()
        log.record(sample_losses.detach())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(5):
        train_step()
    if use_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        train_step()
        if step % args.print_every == 0:
            print(f"step {step:5d} | {log.summary(args.print_every)}")
    if use_cuda:
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    print(log.summary(args.steps))
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
