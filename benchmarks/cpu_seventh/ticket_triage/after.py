"""Trains the ticket router. Usage: python before.py --steps 200"""
import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).with_name("repaired")))
from triage.data import TEAMS, Tickets, Vocabulary, collate, synth_tickets
from triage.model import Router


def batches(loader, steps):
    done = 0
    while True:
        for batch in loader:
            if done == steps:
                return
            yield batch
            done += 1


@torch.inference_mode()
def accuracy(model, loader):
    model.eval()
    hits = sum((model(ids).argmax(1) == team).sum().item() for ids, team in loader)
    model.train()
    return hits / len(loader.dataset)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    torch.manual_seed(11)
    rows = synth_tickets(2400, seed=0)
    vocab = Vocabulary(text for text, _ in rows)
    train = DataLoader(Tickets(rows, vocab), args.batch, shuffle=True, drop_last=True, collate_fn=collate)
    valid = DataLoader(Tickets(synth_tickets(120, seed=1), vocab), 60, collate_fn=collate)

    model = Router(len(vocab), len(TEAMS))
    opt = torch.optim.AdamW(model.parameters(), args.lr, weight_decay=0.01)
    warm = torch.optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, total_iters=10)

    times = []
    start = time.perf_counter()
    for step, (ids, team) in enumerate(batches(train, args.steps), 1):
        loss = F.cross_entropy(model(ids), team)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        warm.step()
        now = time.perf_counter()
        times.append(now - start)
        if step % 20 == 0:
            print(f"step {step}  loss {loss.item():.5f}")
        start = time.perf_counter()
    print(f"validation accuracy {accuracy(model, valid):.3f}")
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
