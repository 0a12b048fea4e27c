"""Continues opening bars from a folder of tunes, a few at a time, and reports on the results.

    python before.py --steps 40 --length 20
"""
import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).with_name("repaired")))
from melody.model import MelodyModel
from melody.sampling import continue_melody
from melody.score import VOCAB, compose, describe


def warm_up(model, songs, steps):
    """Short fit, so that the continuations are not noise."""
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(steps):
        batch = songs[torch.randint(0, len(songs), (16,))][:, :64]
        loss = F.cross_entropy(model(batch[:, :-1]).reshape(-1, VOCAB), batch[:, 1:].reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60, help="groups of openings to continue")
    ap.add_argument("--batch", type=int, default=6)
    ap.add_argument("--prompt", type=int, default=64)
    ap.add_argument("--length", type=int, default=20)
    args = ap.parse_args()
    torch.manual_seed(0)

    songs = compose(240, 100, seed=3)
    model = MelodyModel()
    print(f"fitted to loss {warm_up(model, songs, 20):.4f}")
    model.eval()
    generator = torch.Generator().manual_seed(12)

    times, rests, leaps = [], [], []
    for step in range(args.steps):
        start = time.perf_counter()
        rows = torch.arange(step * args.batch, (step + 1) * args.batch) % len(songs)
        tunes = continue_melody(model, songs[rows, :args.prompt], args.length, generator=generator)
        times.append(time.perf_counter() - start)
        for tune in tunes[:, args.prompt:]:
            rest, leap = describe(tune)
            rests.append(rest)
            leaps.append(leap)
    print(f"rests {statistics.mean(rests):.4f}  leap {statistics.mean(leaps):.4f}")
    print("last tune", tunes[-1, -8:].tolist())
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
