"""Fine-tune the ticket classifier on support tickets of very different lengths."""
import argparse
import random
import time

import torch
from before_pkg import TicketConfig, TicketForSequenceClassification, TicketProcessor
from torch.utils.data import DataLoader, Dataset

TOPICS = {
    "billing": ["invoice", "refund", "charge", "card", "payment"],
    "login": ["password", "account", "login", "reset", "email"],
    "shipping": ["parcel", "delivery", "courier", "address", "late"],
    "crash": ["error", "crash", "freeze", "screen", "restart"],
    "praise": ["thanks", "great", "helpful", "love", "happy"],
}
FILLER = [f"word{i}" for i in range(1500)] + [",", ".", "!", "?"]


class TicketDataset(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.examples = []
        for _ in range(n):
            label = rng.randrange(len(TOPICS))
            length = min(100, max(5, int(rng.lognormvariate(3.2, 0.5))))
            words = rng.choices(FILLER, k=length)
            keywords = list(TOPICS.values())[label]
            for _ in range(2 + length // 10):
                words[rng.randrange(length)] = rng.choice(keywords)
            self.examples.append((" ".join(words), label))

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, index):
        return self.examples[index]


class Collator:
    def __init__(self, processor):
        self.processor = processor

    def __call__(self, examples):
        texts, labels = zip(*examples)
        return self.processor(list(texts), labels=list(labels))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--per-device-train-batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--logging-steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    config = TicketConfig(num_labels=len(TOPICS))
    processor = TicketProcessor(config)
    model = TicketForSequenceClassification(config)
    loader = DataLoader(TicketDataset(1600, args.seed), args.per_device_train_batch_size,
                        shuffle=True, collate_fn=Collator(processor), drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, args.steps)

    model.train()
    losses = []
    start = time.time()
    while len(losses) < args.steps:
        for batch in loader:
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if len(losses) % args.logging_steps == 0:
                print({"loss": round(losses[-1], 4), "step": len(losses),
                       "runtime": round(time.time() - start, 1)})
            if len(losses) >= args.steps:
                break
    tail = losses[-20:]
    print(f"train_loss {sum(tail) / len(tail):.3f}")


if __name__ == "__main__":
    main()
