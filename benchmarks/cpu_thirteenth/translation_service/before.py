"""A translation service: an encoder-decoder answering requests with greedy decoding."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, HEADS, LAYERS = 1200, 160, 4, 3
PAD, BOS = 0, 1


def split_heads(x):
    return x.unflatten(-1, (HEADS, DIM // HEADS)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


class FeedForward(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(DIM, 4 * DIM), nn.ReLU(), nn.Linear(4 * DIM, DIM))


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.ff = FeedForward()

    def forward(self, x, mask):
        q, k, v = map(split_heads, self.qkv(self.norm1(x)).chunk(3, dim=-1))
        x = x + self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))
        return x + self.ff(self.norm2(x))


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(DIM) for _ in range(3))
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.cross_q, self.cross_out = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.cross_kv = nn.Linear(DIM, 2 * DIM)
        self.ff = FeedForward()

    def forward(self, x, memory, memory_mask, cache, position):
        q, k, v = map(split_heads, self.qkv(self.norm1(x)).chunk(3, dim=-1))
        cache["k"][:, :, position], cache["v"][:, :, position] = k[:, :, 0], v[:, :, 0]
        k, v = cache["k"][:, :, : position + 1], cache["v"][:, :, : position + 1]
        x = x + self.out(merge_heads(F.scaled_dot_product_attention(q, k, v)))

        q = split_heads(self.cross_q(self.norm2(x)))
        k, v = map(split_heads, self.cross_kv(memory).chunk(2, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=memory_mask)
        x = x + self.cross_out(merge_heads(y))
        return x + self.ff(self.norm3(x))


class Translator(nn.Module):
    def __init__(self, max_len=128):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.position = nn.Embedding(max_len, DIM)
        self.encoder = nn.ModuleList([EncoderLayer() for _ in range(LAYERS)])
        self.decoder = nn.ModuleList([DecoderLayer() for _ in range(LAYERS)])
        self.norm_enc, self.norm_dec = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.lm_head = nn.Linear(DIM, VOCAB)

    def encode(self, source):
        mask = (source != PAD)[:, None, None, :]
        x = self.embed(source) + self.position.weight[: source.shape[1]]
        for layer in self.encoder:
            x = layer(x, mask)
        return self.norm_enc(x), mask

    def new_cache(self, batch, length):
        shape = (batch, HEADS, length, DIM // HEADS)
        return [{"k": torch.empty(shape), "v": torch.empty(shape)} for _ in self.decoder]

    def decode_step(self, token, position, memory, mask, caches):
        x = (self.embed(token) + self.position.weight[position]).unsqueeze(1)
        for layer, cache in zip(self.decoder, caches):
            x = layer(x, memory, mask, cache, position)
        return self.lm_head(self.norm_dec(x[:, 0]))

    @torch.inference_mode()
    def translate(self, source, max_new_tokens):
        memory, mask = self.encode(source)
        caches = self.new_cache(len(source), max_new_tokens)
        token = torch.full((len(source),), BOS)
        output, score = [], torch.zeros(len(source))
        for position in range(max_new_tokens):
            logits = self.decode_step(token, position, memory, mask, caches)
            best, token = F.log_softmax(logits, dim=-1).max(dim=-1)
            score += best
            output.append(token)
        return torch.stack(output, dim=1), score / max_new_tokens


def requests(n, seed=29):
    """Batches of four sentences, padded to the longest of the four."""
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        lengths = torch.randint(20, 72, (4,), generator=g)
        source = torch.randint(2, VOCAB, (4, int(lengths.max())), generator=g)
        source[torch.arange(source.shape[1]) >= lengths[:, None]] = PAD
        yield source


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="requests to answer")
    parser.add_argument("--max-new-tokens", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)

    model = Translator().eval()
    scores = []
    for source in requests(args.steps):
        _, score = model.translate(source, args.max_new_tokens)
        scores.append(score.mean())
    print(f"{args.steps} requests, mean log-probability {torch.stack(scores).mean().item():.4f}")


if __name__ == "__main__":
    main()
