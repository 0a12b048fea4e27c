"""Support-desk triage service: each request carries a few tickets, the reply names a queue for each."""
import argparse
import json
import random
import tempfile
import zlib
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

QUEUES = ["billing", "login", "outage", "refund", "feature", "abuse"]
VOCAB = 24_000
WORDS = [f"{a}{b}" for a in ("pay", "log", "net", "card", "app", "mail", "user", "item")
         for b in ("ing", "ed", "s", "er", "fail", "slow", "lost", "up", "down", "now")]


def tokenize(text, limit=160):
    return [zlib.crc32(w.encode()) % (VOCAB - 1) + 1 for w in text.lower().split()][:limit]


class Block(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = (
            self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads)
            .permute(2, 0, 3, 1, 4).unbind(0)
        )
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(h.transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class TriageNet(nn.Module):
    def __init__(self, dim=192, depth=4):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, len(QUEUES))

    def forward(self, ids):
        keep = ids != 0
        mask = keep[:, None, None, :]
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, mask)
        x = (self.norm(x) * keep.unsqueeze(-1)).sum(1) / keep.sum(1, keepdim=True)
        return self.head(x)


def export_checkpoint(folder):
    torch.manual_seed(0)
    path = folder / "triage.pt"
    torch.save({"config": {"dim": 192, "depth": 4}, "state": TriageNet().state_dict()}, path)
    return path


def load_model(path):
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    model = TriageNet(**checkpoint["config"])
    model.load_state_dict(checkpoint["state"])
    model.eval()
    return model


class TriageService:
    def __init__(self, checkpoint_path):
        self.model = load_model(checkpoint_path)

    def preprocess(self, body):
        rows = [torch.tensor(tokenize(t["text"])) for t in json.loads(body)["tickets"]]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True)

    @torch.inference_mode()
    def predict(self, body):
        ids = self.preprocess(body)
        probs = self.model(ids).softmax(dim=1)
        score, queue = probs.max(dim=1)
        return json.dumps(
            [{"queue": QUEUES[q], "score": s} for q, s in zip(queue.tolist(), score.tolist())]
        )


def incoming_requests(n, seed=21):
    rng = random.Random(seed)
    for _ in range(n):
        length = rng.randint(60, 90)
        tickets = [{"text": " ".join(rng.choices(WORDS, k=length))} for _ in range(6)]
        yield json.dumps({"tickets": tickets})


def serve(service, requests):
    scores = []
    for body in requests:
        reply = json.loads(service.predict(body))
        scores.extend(item["score"] for item in reply)
    return scores


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        service = TriageService(export_checkpoint(Path(folder)))
        scores = serve(service, incoming_requests(args.steps))
    print(f"{len(scores)} tickets routed, mean confidence {sum(scores) / len(scores):.5f}")


if __name__ == "__main__":
    main()
