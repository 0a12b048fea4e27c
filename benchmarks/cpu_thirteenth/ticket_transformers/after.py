"""A miniature of a transformers-style package: config, tokenizer, collator, model, trainer."""
import argparse
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

TOPICS = {
    "billing": "invoice refund charge card payment receipt tax".split(),
    "login": "password reset account locked email code verify".split(),
    "shipping": "parcel courier late address track damaged return".split(),
    "app": "crash update screen android button freeze install".split(),
}
FILLER = "hello please the my is not again since yesterday and i cannot with for thanks".split()


def make_tickets(n=1500, seed=17):
    rng = np.random.default_rng(seed)
    names = list(TOPICS)
    texts, labels = [], []
    for _ in range(n):
        label = int(rng.integers(len(names)))
        length = int(np.clip(rng.lognormal(3.2, 0.5), 6, 120))
        on_topic = rng.random(length) < 0.15
        words = [str(rng.choice(TOPICS[names[label]] if hit else FILLER)) for hit in on_topic]
        texts.append(" ".join(words))
        labels.append(label)
    return texts, labels


@dataclass
class TicketConfig:
    vocab_size: int = 64
    hidden_size: int = 128
    num_heads: int = 4
    num_layers: int = 3
    intermediate_size: int = 384
    max_position: int = 128
    num_labels: int = 4


class Tokenizer:
    pad_id, unk_id, cls_id = 0, 1, 2

    def __init__(self, texts, model_max_length):
        words = sorted({w for text in texts for w in text.split()})
        self.vocab = {w: i + 3 for i, w in enumerate(words)}
        self.model_max_length = model_max_length

    def encode(self, text):
        ids = [self.cls_id] + [self.vocab.get(w, self.unk_id) for w in text.split()]
        return ids[: self.model_max_length]

    def pad(self, encoded, padding="longest"):
        width = self.model_max_length if padding == "max_length" else max(map(len, encoded))
        input_ids = torch.full((len(encoded), width), self.pad_id)
        for row, ids in zip(input_ids, encoded):
            row[: len(ids)] = torch.tensor(ids)
        return {"input_ids": input_ids, "attention_mask": input_ids != self.pad_id}


@dataclass
class Collator:
    tokenizer: Tokenizer
    padding: str = "longest"

    def __call__(self, features):
        batch = self.tokenizer.pad([ids for ids, _ in features], padding=self.padding)
        batch["labels"] = torch.tensor([label for _, label in features])
        return batch


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.out = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class EncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = SelfAttention(config)
        self.norm1 = nn.LayerNorm(config.hidden_size)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.norm2 = nn.LayerNorm(config.hidden_size)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class TicketModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.position = nn.Embedding(config.max_position, config.hidden_size)
        self.layers = nn.ModuleList([EncoderLayer(config) for _ in range(config.num_layers)])

    def forward(self, input_ids, attention_mask):
        x = self.word(input_ids) + self.position.weight[: input_ids.shape[1]]
        mask = attention_mask[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        return x


class TicketForSequenceClassification(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = TicketModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, input_ids, attention_mask, labels):
        hidden = self.model(input_ids, attention_mask)
        logits = self.classifier(hidden[:, 0])
        return F.cross_entropy(logits, labels), logits


class Trainer:
    def __init__(self, model, dataset, collator, batch_size=16, lr=5e-4):
        self.model, self.dataset, self.collator = model, dataset, collator
        self.batch_size = batch_size
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)

    def train(self, max_steps):
        rng = np.random.default_rng(0)
        losses = []
        self.model.train()
        for _ in range(max_steps):
            pick = rng.integers(len(self.dataset), size=self.batch_size)
            loss, _ = self.model(**self.collator([self.dataset[i] for i in pick]))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses[-10:]).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)

    config = TicketConfig()
    texts, labels = make_tickets()
    tokenizer = Tokenizer(texts, model_max_length=config.max_position)
    dataset = [(tokenizer.encode(text), label) for text, label in zip(texts, labels)]
    model = TicketForSequenceClassification(config)
    trainer = Trainer(model, dataset, Collator(tokenizer))
    print(f"train_loss = {trainer.train(args.steps):.3f}")


if __name__ == "__main__":
    main()
