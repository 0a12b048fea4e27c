"""Pre-train a small masked language model with the minitext package."""

import argparse
import json

import torch
from minitext import (
    DataCollatorForMaskedLM,
    EncoderConfig,
    EncoderForMaskedLM,
    RandomTextDataset,
    Trainer,
    TrainingArguments,
)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--block-size", type=int, default=64)
    cli = parser.parse_args()

    args = TrainingArguments(max_steps=cli.steps, per_device_train_batch_size=cli.batch_size)
    torch.manual_seed(args.seed)
    config = EncoderConfig()
    model = EncoderForMaskedLM(config)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters")
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=RandomTextDataset(config, block_size=cli.block_size),
        data_collator=DataCollatorForMaskedLM(config),
    )
    trainer.train()
    print(json.dumps({"ms": trainer.median_step_ms()}))


if __name__ == "__main__":
    main()
