"""Serve an intent classifier with dynamically quantized (int8) weights."""

import argparse
import json
import statistics
import time
import warnings

import torch
import torch.nn as nn

warnings.filterwarnings("ignore")

INTENTS = ["book_flight", "play_music", "weather", "alarm", "shopping", "smalltalk"]


def tokenize(text, vocab, length):
    ids = [hash_token(tok) % vocab for tok in text.lower().split()][:length]
    return ids + [0] * (length - len(ids))


def hash_token(tok):
    h = 2166136261
    for ch in tok.encode():
        h = ((h ^ ch) * 16777619) & 0xFFFFFFFF
    return h


class MixerBlock(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class IntentModel(nn.Module):
    def __init__(self, vocab=5000, dim=384, layers=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.Sequential(*[MixerBlock(dim, dim * 4) for _ in range(layers)])
        self.head = nn.Linear(dim, len(INTENTS))

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids)).mean(dim=1))


class IntentService:
    def __init__(self, vocab=5000, length=24):
        self.vocab, self.length = vocab, length
        # same settings as the build for the phones
        torch.backends.quantized.engine = "qnnpack"
        torch.manual_seed(0)
        model = IntentModel(vocab).eval()
        self.model = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)

    def predict(self, texts):
        ids = torch.tensor([tokenize(t, self.vocab, self.length) for t in texts])
        with torch.inference_mode():
            probs = torch.softmax(self.model(ids), dim=-1)
        scores, best = probs.max(dim=-1)
        return [(INTENTS[b], round(s, 4)) for b, s in zip(best.tolist(), scores.tolist(), strict=False)]


def make_requests(n, batch_size, seed=4):
    words = [
        "please",
        "book",
        "a",
        "flight",
        "from",
        "berlin",
        "to",
        "rome",
        "on",
        "friday",
        "play",
        "some",
        "jazz",
        "what",
        "is",
        "the",
        "weather",
        "like",
        "tomorrow",
        "set",
        "an",
        "alarm",
        "for",
        "seven",
        "add",
        "milk",
        "and",
        "bread",
        "to",
        "my",
        "list",
        "how",
        "are",
        "you",
        "doing",
        "today",
        "thanks",
    ]
    g = torch.Generator().manual_seed(seed)
    requests = []
    for _ in range(n):
        batch = []
        for _ in range(batch_size):
            k = int(torch.randint(4, 22, (1,), generator=g))
            picks = torch.randint(0, len(words), (k,), generator=g).tolist()
            batch.append(" ".join(words[p] for p in picks))
        requests.append(batch)
    return requests


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="number of request batches")
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()

    service = IntentService()
    counts = dict.fromkeys(INTENTS, 0)
    times = []
    for texts in make_requests(args.steps, args.batch_size):
        t0 = time.perf_counter()
        answers = service.predict(texts)
        times.append((time.perf_counter() - t0) * 1e3)
        for intent, _ in answers:
            counts[intent] += 1
    print("answers by intent:", counts)
    print(f"p95 {sorted(times)[int(0.95 * (len(times) - 1))]:.2f} ms")
    print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}))


if __name__ == "__main__":
    main()
