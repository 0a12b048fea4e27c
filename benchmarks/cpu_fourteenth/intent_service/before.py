"""Intent classification service: text requests, tokenizer, encoder, answers in micro-batches."""
import argparse
import random
from collections import deque
from dataclasses import dataclass

import torch
import torch.nn as nn

MAX_LENGTH = 96
MICRO_BATCH = 8
PAD, UNKNOWN = 0, 1
VERBS = ["play", "stop", "order", "cancel", "find", "book", "call", "translate"]
FILLER = ("please could you maybe the a some my next big small red green now later with "
          "from for and or song pizza hotel taxi ticket friend office word city train").split()


@dataclass
class Request:
    id: int
    text: str


@dataclass
class Answer:
    id: int
    intent: int
    score: float


class WordTokenizer:
    def __init__(self, words):
        self.index = {word: i + 2 for i, word in enumerate(words)}
        self.vocab_size = len(words) + 2

    def encode(self, text):
        return [self.index.get(w, UNKNOWN) for w in text.lower().split()][:MAX_LENGTH]

    def __call__(self, texts):
        """Ids and attention mask for a list of texts."""
        rows = [self.encode(t) for t in texts]
        ids = torch.full((len(rows), MAX_LENGTH), PAD, dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, :len(row)] = torch.tensor(row)
        return ids, ids != PAD


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.heads = heads

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class IntentModel(nn.Module):
    def __init__(self, vocab_size, width=128, heads=4, layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        self.position = nn.Embedding(MAX_LENGTH, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, len(VERBS))

    def forward(self, ids, mask):
        x = self.embed(ids) + self.position(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x, mask)
        weight = mask[..., None].float()
        pooled = (x * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1.0)
        return self.head(pooled)


class IntentService:
    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model.eval(), tokenizer
        self.queue = deque()

    def submit(self, request):
        self.queue.append(request)

    @torch.inference_mode()
    def process_next(self):
        """Answer up to MICRO_BATCH waiting requests."""
        batch = [self.queue.popleft() for _ in range(min(MICRO_BATCH, len(self.queue)))]
        ids, mask = self.tokenizer([r.text for r in batch])
        scores, intents = self.model(ids, mask).softmax(dim=-1).max(dim=-1)
        return [
            Answer(r.id, intent, score)
            for r, intent, score in zip(batch, intents.tolist(), scores.tolist())
        ]


def make_requests(count, seed=21):
    """Most requests are a sentence or two; some are longer."""
    rng = random.Random(seed)
    for i in range(count):
        length = min(60, 8 + int(rng.expovariate(1 / 14)))
        words = [rng.choice(FILLER) for _ in range(length)]
        words[rng.randrange(length)] = rng.choice(VERBS)
        yield Request(i, " ".join(words))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    tokenizer = WordTokenizer(VERBS + FILLER)
    service = IntentService(IntentModel(tokenizer.vocab_size), tokenizer)
    for request in make_requests(args.steps * MICRO_BATCH):
        service.submit(request)

    answers = []
    for _ in range(args.steps):
        answers.extend(service.process_next())
    mean = sum(a.score for a in answers) / len(answers)
    checksum = sum((a.id % 17 + 1) * a.intent for a in answers)
    print(f"answers {len(answers)} mean score {mean:.5f} checksum {checksum}")


if __name__ == "__main__":
    main()
