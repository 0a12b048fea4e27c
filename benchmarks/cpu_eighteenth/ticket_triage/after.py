"""Fine-tune a small encoder to route support tickets to teams."""
import argparse
import random
import tempfile

import torch

from tinyformers import (DataCollatorWithPadding, EncoderConfig, EncoderForSequenceClassification, Trainer, TrainingArguments, WordTokenizer)

TEAMS = ["billing", "login", "shipping", "hardware", "refund"]
TOPIC_WORDS = {
    "billing": "invoice charge card payment tax amount statement currency".split(),
    "login": "password account reset email code locked browser session".split(),
    "shipping": "parcel courier tracking address delay customs delivery warehouse".split(),
    "hardware": "screen battery charger noise firmware button port overheats".split(),
    "refund": "return refund money exchange receipt wrong size cancel".split(),
}
FILLER = ("hello i have been waiting and the your team did not answer please could you help me with this it is "
          "urgent thanks since yesterday we tried again but nothing works order number").split()


def make_tickets(n, rng):
    """Most tickets are a few sentences; now and then somebody pastes a whole thread."""
    rows = []
    for _ in range(n):
        label = rng.randrange(len(TEAMS))
        length = max(6, min(400, int(rng.lognormvariate(3.3, 0.3))))
        if rng.random() < 0.002:
            length = rng.randrange(150, 400)
        words = []
        for _ in range(length):
            r = rng.random()
            if r < 0.14:
                words.append(rng.choice(TOPIC_WORDS[TEAMS[label]]))
            elif r < 0.20:
                words.append(rng.choice(TOPIC_WORDS[rng.choice(TEAMS)]))
            elif r < 0.35:
                words.append(f"ref{rng.randrange(5000)}")
            else:
                words.append(rng.choice(FILLER))
            if rng.random() < 0.08:
                words.append(rng.choice([".", ",", "!"]))
        rows.append({"text": " ".join(words), "label": label})
    return rows


class TicketDataset(torch.utils.data.Dataset):
    def __init__(self, rows, preprocess):
        self.features = [preprocess(r) for r in rows]

    def __len__(self):
        return len(self.features)

    def __getitem__(self, i):
        return self.features[i]


def compute_metrics(logits, labels):
    pred = logits.argmax(dim=-1)
    f1 = []
    for c in range(logits.shape[-1]):
        tp = ((pred == c) & (labels == c)).sum().item()
        f1.append(2 * tp / max(1, (pred == c).sum().item() + (labels == c).sum().item()))
    return {"eval_accuracy": (pred == labels).float().mean().item(), "eval_macro_f1": sum(f1) / len(f1)}


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_samples", type=int, default=1200)
    parser.add_argument("--eval_samples", type=int, default=64)
    parser.add_argument("--max_seq_length", type=int, default=256)
    parser.add_argument("--max_steps", type=int, default=45)
    parser.add_argument("--train_batch_size", type=int, default=16)
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)
    train_rows, eval_rows = make_tickets(args.train_samples, rng), make_tickets(args.eval_samples, rng)
    tokenizer = WordTokenizer.train((r["text"] for r in train_rows), size=4000, model_max_length=args.max_seq_length)

    def preprocess(row):
        enc = tokenizer(row["text"], truncation=True, max_length=args.max_seq_length)
        enc["labels"] = row["label"]
        return enc

    config = EncoderConfig(vocab_size=len(tokenizer), num_labels=len(TEAMS), max_position_embeddings=args.max_seq_length)
    model = EncoderForSequenceClassification(config)
    print(f"vocabulary {len(tokenizer)}, {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters")

    with tempfile.TemporaryDirectory() as output_dir:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(output_dir, max_steps=args.max_steps, per_device_train_batch_size=args.train_batch_size,
                                   eval_steps=args.max_steps, seed=args.seed),
            train_dataset=TicketDataset(train_rows, preprocess),
            eval_dataset=TicketDataset(eval_rows, preprocess),
            data_collator=DataCollatorWithPadding(tokenizer),
            compute_metrics=compute_metrics,
        )
        trainer.train()


if __name__ == "__main__":
    main()
