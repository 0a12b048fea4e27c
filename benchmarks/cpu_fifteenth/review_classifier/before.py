"""Fine-tune a small BERT-like classifier on product reviews, in the style of transformers."""
import argparse
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

GOOD = "great lovely sturdy quick excellent happy perfect recommend".split()
BAD = "broken slow awful cheap refund noisy useless disappointed".split()
NEUTRAL = "the a it this product box arrived with my in on and for was very day color size order shop".split()


@dataclass
class MiniBertConfig:
    vocab_size: int = 64
    hidden_size: int = 96
    num_layers: int = 3
    num_heads: int = 4
    max_position: int = 128
    num_labels: int = 2


class WordTokenizer:
    pad_token_id, cls_token_id, unk_token_id = 0, 1, 2

    def __init__(self, words):
        self.ids = {w: i + 3 for i, w in enumerate(words)}

    def encode(self, text, max_length):
        ids = [self.cls_token_id] + [self.ids.get(w, self.unk_token_id) for w in text.split()]
        return ids[:max_length]

    def pad(self, encoded, length):
        input_ids = torch.full((len(encoded), length), self.pad_token_id)
        attention_mask = torch.zeros(len(encoded), length, dtype=torch.bool)
        for i, ids in enumerate(encoded):
            input_ids[i, :len(ids)] = torch.tensor(ids)
            attention_mask[i, :len(ids)] = True
        return {"input_ids": input_ids, "attention_mask": attention_mask}


class ReviewDataset(Dataset):
    """Mostly short reviews, now and then a long one."""

    def __init__(self, count, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(count):
            label = rng.randrange(2)
            n = min(120, max(5, int(rng.lognormvariate(2.8, 0.5))))
            words = [rng.choice(NEUTRAL) for _ in range(n)]
            for _ in range(max(1, n // 6)):
                source = (GOOD, BAD)[label if rng.random() < 0.2 else 1 - label]
                words[rng.randrange(n)] = rng.choice(source)
            self.rows.append((" ".join(words), label))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class DataCollator:
    def __init__(self, tokenizer, max_length):
        self.tokenizer = tokenizer
        self.max_length = max_length

    def __call__(self, rows):
        encoded = [self.tokenizer.encode(text, self.max_length) for text, _ in rows]
        batch = self.tokenizer.pad(encoded, self.max_length)
        batch["labels"] = torch.tensor([label for _, label in rows])
        return batch


class BertEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.position = nn.Embedding(config.max_position, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size)

    def forward(self, input_ids):
        positions = torch.arange(input_ids.size(1))
        return self.norm(self.word(input_ids) + self.position(positions))


class BertLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        d = config.hidden_size
        self.heads = config.num_heads
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        x = self.norm1(x + self.out(y.transpose(1, 2).reshape(b, t, d)))
        return self.norm2(x + self.ff(x))


class BertForSequenceClassification(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embeddings = BertEmbeddings(config)
        self.layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_layers))
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, input_ids, attention_mask, labels):
        h = self.embeddings(input_ids)
        for layer in self.layers:
            h = layer(h, attention_mask)
        logits = self.classifier(h[:, 0])
        return F.cross_entropy(logits, labels), logits


class Trainer:
    def __init__(self, model, dataset, collator, batch_size, lr):
        self.model = model
        self.loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, collate_fn=collator, drop_last=True)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def train(self, max_steps):
        self.model.train()
        losses = []
        while True:
            for batch in self.loader:
                loss, _ = self.model(**batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
                if len(losses) == max_steps:
                    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = MiniBertConfig()
    tokenizer = WordTokenizer(GOOD + BAD + NEUTRAL)
    collator = DataCollator(tokenizer, max_length=config.max_position)
    trainer = Trainer(BertForSequenceClassification(config), ReviewDataset(1000, seed=0), collator, 16, lr=5e-4)
    print(f"mean train loss {trainer.train(args.steps):.4f}")


if __name__ == "__main__":
    main()
