"""Abstractive summarisation: batched beam-search decoding of a test split with a small
pre-norm encoder-decoder.  Prints mean hypothesis score, length and docs/s."""
import argparse
import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, EOS = 0, 1, 2


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)

    def split(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.heads, d // self.heads).transpose(1, 2)

    def project_kv(self, x):
        return self.split(self.k_proj(x)), self.split(self.v_proj(x))

    def attend(self, x, k, v, mask=None):
        q = self.split(self.q_proj(x))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.attn = Attention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, ffn), nn.GELU(), nn.Linear(ffn, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, mask):
        h = self.n1(x)
        x = x + self.attn.attend(h, *self.attn.project_kv(h), mask)
        return x + self.ff(self.n2(x))


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.self_attn = Attention(dim, heads)
        self.cross_attn = Attention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, ffn), nn.GELU(), nn.Linear(ffn, dim))
        self.n1, self.n2, self.n3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, memory, memory_mask, cache):
        h = self.n1(x)
        k, v = self.self_attn.project_kv(h)
        if "k" in cache:
            k = torch.cat([cache["k"], k], dim=2)
            v = torch.cat([cache["v"], v], dim=2)
        cache["k"], cache["v"] = k, v
        x = x + self.self_attn.attend(h, k, v)
        mk, mv = self.cross_attn.project_kv(memory)
        x = x + self.cross_attn.attend(self.n2(x), mk, mv, memory_mask)
        return x + self.ff(self.n3(x))


class Summarizer(nn.Module):
    def __init__(self, vocab, dim=192, heads=6, ffn=512, enc_layers=3, dec_layers=3, max_len=512):
        super().__init__()
        self.dim = dim
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD)
        pos = torch.arange(max_len).unsqueeze(1) * torch.exp(
            torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        self.register_buffer("pos", torch.cat([pos.sin(), pos.cos()], 1), persistent=False)
        self.encoder = nn.ModuleList(EncoderLayer(dim, heads, ffn) for _ in range(enc_layers))
        self.decoder = nn.ModuleList(DecoderLayer(dim, heads, ffn) for _ in range(dec_layers))
        self.enc_norm, self.dec_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def encode(self, src):
        mask = (src != PAD)[:, None, None, :]
        x = self.embed(src) * math.sqrt(self.dim) + self.pos[:src.size(1)]
        for layer in self.encoder:
            x = layer(x, mask)
        return self.enc_norm(x), mask

    def decode_step(self, tokens, position, memory, memory_mask, caches):
        x = self.embed(tokens).unsqueeze(1) * math.sqrt(self.dim) + self.pos[position]
        for layer, cache in zip(self.decoder, caches):
            x = layer(x, memory, memory_mask, cache)
        return F.linear(self.dec_norm(x[:, 0]), self.embed.weight)


class BeamSearch:
    def __init__(self, model, beams=4, max_len=24, min_len=8, length_penalty=1.0):
        self.model, self.beams = model, beams
        self.max_len, self.min_len, self.alpha = max_len, min_len, length_penalty

    def reorder(self, caches, order):
        for cache in caches:
            for name in ("k", "v"):
                cache[name] = cache[name].index_select(0, order)

    @torch.inference_mode()
    def __call__(self, src):
        n, B = src.size(0), self.beams
        memory, mask = self.model.encode(src)
        memory = memory.repeat_interleave(B, 0)
        mask = mask.repeat_interleave(B, 0)
        caches = [{} for _ in self.model.decoder]
        tokens = torch.full((n * B, 1), BOS)
        scores = torch.full((n, B), -1e9)
        scores[:, 0] = 0.0
        done = torch.zeros(n, B, dtype=torch.bool)
        base = (torch.arange(n) * B).unsqueeze(1)
        for t in range(self.max_len):
            logits = self.model.decode_step(tokens[:, -1], t, memory, mask, caches)
            logp = F.log_softmax(logits, -1).view(n, B, -1)
            if t < self.min_len:
                logp[..., EOS] = -1e9
            logp = logp.masked_fill(done.unsqueeze(-1), -1e9)
            logp[..., PAD] = torch.where(done, 0.0, -1e9)
            vocab = logp.size(-1)
            scores, flat = (scores.unsqueeze(-1) + logp).view(n, -1).topk(B, dim=-1)
            parent, word = flat // vocab, flat % vocab
            order = (base + parent).view(-1)
            tokens = torch.cat([tokens[order], word.view(-1, 1)], 1)
            done = done.gather(1, parent) | (word == EOS)
            self.reorder(caches, order)
            if done.all():
                break
        tokens = tokens.view(n, B, -1)
        length = (tokens != PAD).sum(-1).float()
        best = (scores / length ** self.alpha).argmax(1)
        rows = torch.arange(n)
        return tokens[rows, best], (scores / length ** self.alpha)[rows, best]


def synthetic_split(n_docs, vocab, min_len, max_len, seed):
    g = torch.Generator().manual_seed(seed)
    probs = 1.0 / (torch.arange(vocab - 3).float() + 10)
    docs = []
    for _ in range(n_docs):
        length = int(torch.randint(min_len, max_len + 1, (1,), generator=g))
        docs.append(torch.multinomial(probs, length, replacement=True, generator=g) + 3)
    return docs


def batches(docs, size):
    order = sorted(range(len(docs)), key=lambda i: len(docs[i]))
    for s in range(0, len(order), size):
        ids = order[s:s + size]
        yield ids, nn.utils.rnn.pad_sequence([docs[i] for i in ids], batch_first=True, padding_value=PAD)


def load_model(args):
    torch.manual_seed(args.seed)
    model = Summarizer(args.vocab)
    nn.init.normal_(model.embed.weight, std=model.dim ** -0.5)
    if args.ckpt and os.path.exists(args.ckpt):
        model.load_state_dict(torch.load(args.ckpt, map_location="cpu")["model"])
    return model.eval()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--ckpt", default="")
    ap.add_argument("--docs", type=int, default=120)
    ap.add_argument("--batch-size", type=int, default=4)
    ap.add_argument("--vocab", type=int, default=8000)
    ap.add_argument("--beams", type=int, default=4)
    ap.add_argument("--min-src", type=int, default=60)
    ap.add_argument("--max-src", type=int, default=160)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()

    model = load_model(args)
    docs = synthetic_split(args.docs, args.vocab, args.min_src, args.max_src, args.seed)
    search = BeamSearch(model, beams=args.beams)
    hyps, total, start = [None] * len(docs), 0.0, time.time()
    for step, (ids, src) in enumerate(batches(docs, args.batch_size), 1):
        out, score = search(src)
        for i, row in zip(ids, out.tolist()):
            hyps[i] = [w for w in row[1:] if w not in (PAD, EOS)]
        total += score.sum().item()
        if step % 10 == 0:
            n = step * args.batch_size
            print(f"{n}/{len(docs)} docs, {n / (time.time() - start):.2f} docs/s")
    copied = sum(len(set(h) & set(d.tolist())) / max(len(set(h)), 1) for h, d in zip(hyps, docs))
    print(f"mean score {total / len(docs):.5f}  mean length {sum(map(len, hyps)) / len(hyps):.2f}  "
          f"copy rate {copied / len(docs):.3f}")


if __name__ == "__main__":
    main()
