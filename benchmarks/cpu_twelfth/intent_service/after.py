"""Intent classification service for a banking assistant: queue -> micro-batch -> encoder -> answer."""
import argparse
import random
from collections import Counter, deque

import torch
import torch.nn as nn
import torch.nn.functional as F

INTENTS = ["balance", "transfer", "card_lost", "loan", "opening_hours", "complaint", "smalltalk"]
WORDS = ("i my the a to please card account money want lost send transfer how much is on can you help with loan "
         "open close today branch when fee charged twice wrong hello thanks balance savings limit raise").split()
MAX_LENGTH = 64
PAD_ID, CLS_ID = 0, 1


class Tokenizer:
    def __init__(self, words):
        self.vocab = {w: i + 2 for i, w in enumerate(words)}

    def __len__(self):
        return len(self.vocab) + 2

    def encode(self, text):
        return [CLS_ID] + [self.vocab[w] for w in text.split() if w in self.vocab][:MAX_LENGTH - 1]

    def __call__(self, texts):
        encoded = [self.encode(t) for t in texts]
        longest = max(len(tokens) for tokens in encoded)
        ids = torch.full((len(texts), longest), PAD_ID, dtype=torch.long)
        for row, tokens in zip(ids, encoded):
            row[:len(tokens)] = torch.tensor(tokens)
        return {"input_ids": ids, "attention_mask": ids != PAD_ID}


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.ln1(x + self.proj(a.transpose(1, 2).reshape(b, t, d)))
        return self.ln2(x + self.fc2(F.gelu(self.fc1(x))))


class IntentEncoder(nn.Module):
    def __init__(self, vocab, dim=256, heads=4, layers=4):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(MAX_LENGTH, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.cls = nn.Linear(dim, len(INTENTS))

    def forward(self, input_ids, attention_mask):
        x = self.tok(input_ids) + self.pos.weight[:input_ids.size(1)]
        for layer in self.layers:
            x = layer(x, attention_mask[:, None, None, :])
        return self.cls(x[:, 0])


class IntentService:
    def __init__(self, max_batch):
        torch.manual_seed(0)
        self.tokenizer = Tokenizer(WORDS)
        self.model = IntentEncoder(len(self.tokenizer)).eval()
        self.max_batch = max_batch
        self.queue = deque()

    def submit(self, request_id, text):
        self.queue.append((request_id, text))

    @torch.inference_mode()
    def serve_once(self):
        """Answer up to max_batch waiting requests."""
        take = [self.queue.popleft() for _ in range(min(self.max_batch, len(self.queue)))]
        batch = self.tokenizer([text for _, text in take])
        probs = self.model(**batch).softmax(dim=-1)
        conf, label = probs.max(dim=-1)
        return [(rid, INTENTS[i], c) for (rid, _), i, c in zip(take, label.tolist(), conf.tolist())]


def traffic(n, seed=17):
    """Customer messages: mostly one short sentence, now and then a longer story."""
    rng = random.Random(seed)
    for i in range(n):
        length = rng.randint(20, 44) if rng.random() < 0.08 else rng.randint(3, 16)
        yield f"req-{i:06d}", " ".join(rng.choices(WORDS, k=length))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="micro-batches to serve")
    parser.add_argument("--max-batch", type=int, default=8)
    args = parser.parse_args()

    service = IntentService(args.max_batch)
    messages = traffic(args.steps * args.max_batch)
    answered, confidence = Counter(), 0.0
    for _ in range(args.steps):
        for _ in range(args.max_batch):
            service.submit(*next(messages))
        for _, intent, conf in service.serve_once():
            answered[intent] += 1
            confidence += conf
    total = max(sum(answered.values()), 1)
    top = answered.most_common(1)[0] if answered else ("-", 0)
    print(f"served {total} requests, mean confidence {confidence / total:.4f}, top intent {top[0]} x{top[1]}")


if __name__ == "__main__":
    main()
