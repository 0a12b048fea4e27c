"""Fine-tune a BERT classifier on short product reviews."""
import argparse
import json
import os
import resource
import time

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.utils.data import DataLoader, Dataset
from transformers import (BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast,
                          get_linear_schedule_with_warmup)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def make_words(count):
    """Pronounceable word list used for both the vocabulary and the reviews."""
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    return ["".join(syllables[(i // 70 ** k) % 70] for k in range(3)) for i in range(count)]


def build_tokenizer(words):
    vocab = {w: i for i, w in enumerate(SPECIAL + words)}
    tok = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]",
                                   cls_token="[CLS]", sep_token="[SEP]")


class ReviewDataset(Dataset):
    """Star-rated reviews; the rating shifts which words are used."""

    def __init__(self, words, count, rng):
        words = np.array(words)
        self.labels = rng.integers(0, 5, count)
        lengths = np.clip(rng.lognormal(3.7, 0.5, count), 8, 120).astype(int)
        self.texts = []
        for label, n in zip(self.labels, lengths):
            picks = (rng.zipf(1.3, n) * (label + 3)) % len(words)
            self.texts.append(" ".join(words[picks]))

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return self.texts[i], int(self.labels[i])


class Collator:
    """Tokenize a list of (text, label) pairs into model inputs."""

    def __init__(self, tokenizer, max_length):
        self.tokenizer = tokenizer
        self.max_length = max_length

    def __call__(self, examples):
        texts, labels = zip(*examples)
        batch = self.tokenizer(
            list(texts),
            truncation=True,
            padding="max_length",
            max_length=self.max_length,
            return_tensors="pt",
        )
        batch["labels"] = torch.tensor(labels)
        return dict(batch)


def build_model(small, vocab_size):
    config = BertConfig(vocab_size=vocab_size, num_labels=5, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0)
    if small:
        config.update(dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
                           intermediate_size=128))
    return BertForSequenceClassification(config)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--max-length", type=int, default=512)
    parser.add_argument("--lr", type=float, default=2e-5)
    args = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_cuda = device.type == "cuda"
    batch_size = 4 if args.small else 64
    total_steps = args.steps + 10

    words = make_words(1000 if args.small else 20000)
    tokenizer = build_tokenizer(words)
    dataset = ReviewDataset(words, batch_size * (args.steps + 40), rng)
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True,
                        num_workers=1 if args.small else 4, pin_memory=use_cuda,
                        collate_fn=Collator(tokenizer, args.max_length))

    model = build_model(args.small, len(tokenizer)).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01,
                                  fused=use_cuda)
    scheduler = get_linear_schedule_with_warmup(optimizer, total_steps // 10, total_steps)
    batches = iter(loader)

    def train_step():
        batch = {k: v.to(device, non_blocking=True) for k, v in next(batches).items()}
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_cuda):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    for _ in range(10):
        train_step()

    if use_cuda:
        torch.cuda.synchronize()
    losses = []
    start = time.perf_counter()
    for step in range(args.steps):
        losses.append(train_step())
    if use_cuda:
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    losses = torch.stack(losses).float().cpu()
    print(f"first loss {losses[0]:.4f}  last loss {losses[-1]:.4f}  mean {losses.mean():.4f}")
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
