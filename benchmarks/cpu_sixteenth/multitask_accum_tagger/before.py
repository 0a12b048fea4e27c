"""Joint intent / slot / domain model for voice commands (GRU encoder), trained with gradient accumulation."""
import argparse
import os
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

N_WORDS, N_INTENT, N_SLOT, N_DOMAIN = 5000, 26, 41, 9


class CommandData:
    """Templates with filled slots; length varies between 12 and 32 words."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.tokens = torch.zeros(n, 32, dtype=torch.long)
        self.slots = torch.full((n, 32), -1)
        self.lengths = torch.randint(12, 33, (n,), generator=g)
        self.intent = torch.randint(N_INTENT, (n,), generator=g)
        self.domain = self.intent % N_DOMAIN
        base = self.intent * 150
        for i in range(n):
            k = int(self.lengths[i])
            words = (base[i] + torch.randint(0, 400, (k,), generator=g)) % (N_WORDS - 1) + 1
            self.tokens[i, :k] = words
            self.slots[i, :k] = words % N_SLOT
        self.gen = g

    def epoch(self, batch):
        order = torch.randperm(len(self.tokens), generator=self.gen)
        for part in order.split(batch):
            longest = int(self.lengths[part].max())
            yield {"tokens": self.tokens[part, :longest], "slots": self.slots[part, :longest],
                   "intent": self.intent[part], "domain": self.domain[part]}


class JointModel(nn.Module):
    def __init__(self, dim=96, hidden=96):
        super().__init__()
        self.emb = nn.Embedding(N_WORDS, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.mix = nn.Sequential(nn.Linear(2 * hidden, 2 * hidden), nn.GELU(), nn.LayerNorm(2 * hidden))
        self.pool = nn.Linear(2 * hidden, 1)
        self.intent = nn.Linear(2 * hidden, N_INTENT)
        self.domain = nn.Linear(2 * hidden, N_DOMAIN)
        self.slot = nn.Linear(2 * hidden, N_SLOT)

    def forward(self, tokens):
        h, _ = self.rnn(self.emb(tokens))
        h = self.mix(h)
        weight = self.pool(h).squeeze(-1).masked_fill(tokens == 0, -1e4).softmax(-1)
        pooled = (weight.unsqueeze(-1) * h).sum(1)
        return {"intent": self.intent(pooled), "domain": self.domain(pooled), "slots": self.slot(h)}


def task_losses(out, batch):
    return {
        "intent": F.cross_entropy(out["intent"], batch["intent"]),
        "domain": F.cross_entropy(out["domain"], batch["domain"]),
        "slots": F.cross_entropy(out["slots"].flatten(0, 1), batch["slots"].flatten(), ignore_index=-1),
    }


class Averager:
    def __init__(self):
        self.total, self.n = {}, 0

    def add(self, losses):
        for k, v in losses.items():
            self.total[k] = self.total.get(k, 0.0) + v.item()
        self.n += 1

    def flush(self):
        text = " ".join(f"{k} {v / self.n:.3f}" for k, v in self.total.items())
        self.total, self.n = {}, 0
        return text


class AccumulatingTrainer:
    def __init__(self, model, weights, accumulate, lr, total_steps, clip=1.0):
        self.model, self.weights, self.accumulate, self.clip = model, weights, accumulate, clip
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
        self.sched = torch.optim.lr_scheduler.LinearLR(self.opt, 1.0, 0.1, total_iters=total_steps)
        self.meter = Averager()
        self.micro = 0
        self.steps = 0

    def backward(self, losses):
        names = list(losses)
        for i, name in enumerate(names):
            scaled = self.weights[name] * losses[name] / self.accumulate
            scaled.backward(retain_graph=i + 1 < len(names))

    def micro_step(self, batch):
        losses = task_losses(self.model(batch["tokens"]), batch)
        self.backward(losses)
        self.meter.add(losses)
        self.micro += 1
        if self.micro % self.accumulate == 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
            self.opt.step()
            self.sched.step()
            self.opt.zero_grad(set_to_none=True)
            self.steps += 1
            return True
        return False


@torch.no_grad()
def evaluate(model, data, batch):
    model.eval()
    ok = n = tag_ok = tags = 0
    for b in data.epoch(batch):
        out = model(b["tokens"])
        ok += (out["intent"].argmax(-1) == b["intent"]).sum().item()
        n += len(b["intent"])
        valid = b["slots"] >= 0
        tag_ok += ((out["slots"].argmax(-1) == b["slots"]) & valid).sum().item()
        tags += valid.sum().item()
    model.train()
    return ok / n, tag_ok / tags


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=30)
    ap.add_argument("--micro-batch", type=int, default=16)
    ap.add_argument("--accumulate", type=int, default=4)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--report", type=int, default=10)
    args = ap.parse_args()
    torch.manual_seed(11)

    train, dev = CommandData(2000, 1), CommandData(128, 2)
    model = JointModel()
    trainer = AccumulatingTrainer(model, {"intent": 1.0, "domain": 0.5, "slots": 2.0}, args.accumulate, args.lr,
                                  args.steps)
    ckpt = os.path.join(tempfile.mkdtemp(), "joint.pt")
    t = time.time()
    while trainer.steps < args.steps:
        for batch in train.epoch(args.micro_batch):
            if trainer.micro_step(batch) and trainer.steps % args.report == 0:
                ms = (time.time() - t) / args.report * 1e3
                print(f"update {trainer.steps}: {trainer.meter.flush()} | {ms:.0f} ms/update", flush=True)
                t = time.time()
            if trainer.steps >= args.steps:
                break
    torch.save(model.state_dict(), ckpt)
    intent, slot = evaluate(model, dev, 64)
    print(f"dev intent acc {intent:.3f} slot acc {slot:.3f}")


if __name__ == "__main__":
    main()
