"""Denoiser for low-dose radiographs, with validation of averaged weights along the way."""
import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader

from denoise.data import NoisyCrops, fixed_pairs, write_radiographs
from denoise.net import Average, Denoiser


def charbonnier(a, b, eps=1e-3):
    return (a - b).square().add(eps ** 2).sqrt().mean()


@torch.inference_mode()
def validate(model, noisy, clean, batch=4):
    model.eval()
    psnr = []
    for x, y in zip(noisy.split(batch), clean.split(batch)):
        mse = (model(x).clamp(0, 1) - y).square().mean((1, 2, 3))
        psnr.append(-10 * mse.log10())
    model.train()
    return torch.cat(psnr).mean().item()


def stream(loader):
    while True:
        yield from loader


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--crop", type=int, default=96)
    ap.add_argument("--workers", type=int, default=1)
    args = ap.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        path, held = Path(tmp, "train.npy"), Path(tmp, "held.npy")
        write_radiographs(path, 40, 288, seed=1)
        write_radiographs(held, 8, 128, seed=2)
        noisy, clean = fixed_pairs(held, 8, args.crop, seed=3)
        loader = DataLoader(NoisyCrops(path, args.crop, 100 * args.batch), args.batch, drop_last=True,
                            shuffle=True, num_workers=args.workers, persistent_workers=args.workers > 0)
        layout = torch.channels_last
        model = Denoiser().to(memory_format=layout)
        average = Average(model)
        opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)

        times, running = [], torch.zeros(())
        batches = stream(loader)
        for step in range(1, args.steps + 1):
            t0 = time.perf_counter()
            x, y = next(batches)
            loss = charbonnier(model(x.contiguous(memory_format=layout)), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            average.update()
            running += loss.detach()
            times.append(time.perf_counter() - t0)
            if step % 20 == 0:
                average.swap()
                psnr = validate(model, noisy.contiguous(memory_format=layout), clean)
                average.swap()
                print(f"step {step}  loss {running.item() / 20:.4f}  psnr {psnr:.2f}")
                running.zero_()
        del batches
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
