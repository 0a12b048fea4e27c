"""Pre-training of a small masked language model on headlines."""
import argparse
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "repaired"))
from data import Headlines
from model import MaskedLM
from trainer import Trainer


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--seq-len", type=int, default=64)
    ap.add_argument("--vocab", type=int, default=5000)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(7)

    data = Headlines(args.vocab, n_docs=2000, seq_len=args.seq_len, seed=5)
    model = MaskedLM(args.vocab, max_len=args.seq_len)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    trainer = Trainer(model, data, args.batch_size, args.lr, warmup=20)
    final = trainer.fit(args.steps)
    print(f"final loss {final:.4f}")
    print(f"mean step {trainer.mean_step_ms():.2f} ms")


if __name__ == "__main__":
    main()
