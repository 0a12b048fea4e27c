"""Pretrain a small relative-position encoder with masked tokens."""
import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent / "fixed"))
from relenc import (RelEncConfig, RelEncForMaskedLM, SpanDataset, Trainer, TrainingArguments,
                    collate_masked)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--length", type=int, default=192)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    config = RelEncConfig()
    model = RelEncForMaskedLM(config)
    dataset = SpanDataset(400, args.length, config.vocab_size, seed=args.seed)
    collator = collate_masked(config, torch.Generator().manual_seed(args.seed + 1))
    trainer = Trainer(model, TrainingArguments(max_steps=args.steps, seed=args.seed), dataset, collator)
    state = trainer.train()
    print(f"{state['loss'].item():.5f}")


if __name__ == "__main__":
    main()
