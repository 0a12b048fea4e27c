"""Fine-tunes a relative-position encoder on support tickets (eight queues)."""
import argparse
import os
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "before"))
from relformer import (DataCollatorWithPadding, RelformerConfig, RelformerForSequenceClassification,  # noqa: E402
                       Trainer, TrainingArguments)


class TicketDataset(torch.utils.data.Dataset):
    """Tickets of 330 to 400 tokens with queue-specific words sprinkled in."""

    def __init__(self, n, vocab, labels, seed):
        rng = np.random.default_rng(seed)
        self.items = []
        for _ in range(n):
            label = int(rng.integers(labels))
            length = int(rng.integers(330, 401))
            ids = np.minimum(rng.zipf(1.25, length) + 200, vocab - 1)
            special = rng.random(length) < 0.1
            ids[special] = 4 + label * 20 + rng.integers(0, 20, special.sum())
            self.items.append({"input_ids": ids.astype(np.int64), "label": label})

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def compute_metrics(logits, labels):
    pred = logits.argmax(-1)
    f1 = []
    for c in labels.unique():
        tp = ((pred == c) & (labels == c)).sum()
        f1.append(2 * tp / ((pred == c).sum() + (labels == c).sum()))
    return {"accuracy": (pred == labels).float().mean().item(), "macro_f1": torch.stack(f1).mean().item()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_steps", type=int, default=30)
    parser.add_argument("--learning_rate", type=float, default=5e-4)
    parser.add_argument("--per_device_train_batch_size", type=int, default=2)
    ns = parser.parse_args()

    args = TrainingArguments(max_steps=ns.max_steps, learning_rate=ns.learning_rate,
                             per_device_train_batch_size=ns.per_device_train_batch_size)
    torch.manual_seed(args.seed)
    config = RelformerConfig()
    model = RelformerForSequenceClassification(config)
    print(f"{config.model_type}: {model.num_parameters() / 1e6:.2f}M parameters")
    trainer = Trainer(
        model=model,
        args=args,
        data_collator=DataCollatorWithPadding(config.pad_token_id),
        train_dataset=TicketDataset(400, config.vocab_size, config.num_labels, 0),
        eval_dataset=TicketDataset(24, config.vocab_size, config.num_labels, 1),
        compute_metrics=compute_metrics,
    )
    trainer.train()
    print("eval", trainer.evaluate())


if __name__ == "__main__":
    main()
