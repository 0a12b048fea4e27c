"""Reply-suggestion service: a queue of chat messages, a decoder with KV cache, mixed precision on the CPU.

The load generator stands in for the web front end; each request holds a few prompts that are answered together.
"""
import argparse
import math
import queue
import threading
import time
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class ModelArgs:
    vocab: int = 8000
    dim: int = 512
    heads: int = 8
    layers: int = 4
    ff: int = 1536
    max_len: int = 160


@dataclass
class Request:
    uid: int
    prompt: torch.Tensor
    arrived: float
    done: threading.Event = field(default_factory=threading.Event)
    reply: list = None
    latency: float = 0.0


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class KVCache:
    def __init__(self, args, batch, dtype):
        shape = (args.layers, batch, args.heads, args.max_len, args.dim // args.heads)
        self.k, self.v = torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)

    def put(self, layer, pos, k, v):
        end = pos + k.size(2)
        self.k[layer, :, :, pos:end] = k
        self.v[layer, :, :, pos:end] = v
        return self.k[layer, :, :, :end], self.v[layer, :, :, :end]


class Block(nn.Module):
    def __init__(self, args, layer):
        super().__init__()
        self.layer, self.heads = layer, args.heads
        self.n1, self.n2 = RMSNorm(args.dim), RMSNorm(args.dim)
        self.qkv = nn.Linear(args.dim, 3 * args.dim, bias=False)
        self.o = nn.Linear(args.dim, args.dim, bias=False)
        self.gate = nn.Linear(args.dim, args.ff, bias=False)
        self.up = nn.Linear(args.dim, args.ff, bias=False)
        self.down = nn.Linear(args.ff, args.dim, bias=False)

    def forward(self, x, cache, pos):
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = cache.put(self.layer, pos, k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class ReplyModel(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.tok = nn.Embedding(args.vocab, args.dim)
        self.pos = nn.Embedding(args.max_len, args.dim)
        self.blocks = nn.ModuleList(Block(args, i) for i in range(args.layers))
        self.norm = RMSNorm(args.dim)
        self.head = nn.Linear(args.dim, args.vocab, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=1.6 / math.sqrt(p.size(1)))

    def forward(self, ids, cache, pos):
        where = torch.arange(pos, pos + ids.size(1))
        x = self.tok(ids) + self.pos(where)
        for block in self.blocks:
            x = block(x, cache, pos)
        return self.head(self.norm(x[:, -1]))


class Engine:
    def __init__(self, args, new_tokens, dtype=torch.bfloat16):
        self.model = ReplyModel(args).eval().requires_grad_(False)
        self.args, self.new_tokens, self.dtype = args, new_tokens, dtype

    @torch.inference_mode()
    def generate(self, prompts):
        cache = KVCache(self.args, prompts.size(0), self.dtype)
        out, ids, pos = [], prompts, 0
        with torch.autocast("cpu", dtype=self.dtype):
            for _ in range(self.new_tokens):
                logits = self.model(ids, cache, pos)
                pos += ids.size(1)
                ids = logits.float().argmax(-1, keepdim=True)
                out.append(ids)
        return torch.cat(out, 1)


class Server(threading.Thread):
    def __init__(self, engine, max_batch):
        super().__init__(daemon=True)
        self.engine, self.max_batch = engine, max_batch
        self.inbox = queue.Queue()
        self.batches = 0
        self.busy = 0.0

    def submit(self, request):
        self.inbox.put(request)

    def take(self):
        batch = [self.inbox.get()]
        while len(batch) < self.max_batch and batch[-1] is not None:
            try:
                batch.append(self.inbox.get(timeout=0.002))
            except queue.Empty:
                break
        return batch

    def run(self):
        while True:
            batch = self.take()
            stop = None in batch
            batch = [r for r in batch if r is not None]
            if batch:
                tic = time.perf_counter()
                replies = self.engine.generate(torch.stack([r.prompt for r in batch]))
                self.busy += time.perf_counter() - tic
                self.batches += 1
                for request, reply in zip(batch, replies.tolist()):
                    request.reply, request.latency = reply, time.perf_counter() - request.arrived
                    request.done.set()
            if stop:
                return


def load(server, n, width, prompt_len, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    requests = []
    for start in range(0, n, width):
        group = [Request(i, torch.randint(vocab, (prompt_len,), generator=g), time.perf_counter())
                 for i in range(start, start + width)]
        for r in group:
            server.submit(r)
        for r in group:
            r.done.wait()
        requests += group
    return requests


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--requests", type=int, default=120)
    ap.add_argument("--max-batch", type=int, default=4)
    ap.add_argument("--prompt-len", type=int, default=24)
    ap.add_argument("--new-tokens", type=int, default=10)
    args = ap.parse_args()
    torch.manual_seed(0)

    cfg = ModelArgs()
    engine = Engine(cfg, args.new_tokens)
    server = Server(engine, args.max_batch)
    server.start()
    finished = load(server, args.requests, args.max_batch, args.prompt_len, cfg.vocab, seed=5)
    server.submit(None)
    server.join()

    lat = torch.tensor([r.latency for r in finished])
    check = sum(sum(r.reply) for r in finished) % 1_000_003
    print(f"{server.batches} batches, {server.busy / server.batches * 1e3:.0f} ms per batch")
    print(f"latency p50 {lat.quantile(0.5) * 1e3:.0f} ms, p95 {lat.quantile(0.95) * 1e3:.0f} ms, checksum {check}")


if __name__ == "__main__":
    main()
