"""Translation of batches of sentences with beam search and cached keys and values."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

PAD, BOS, EOS = 0, 1, 2


@dataclass
class Config:
    vocabulary: int = 6000
    width: int = 256
    heads: int = 8
    layers: int = 3
    longest: int = 256


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)
        self.out = nn.Linear(config.width, config.width)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def keys_values(self, x):
        return self.split(self.key(x)), self.split(self.value(x))

    def forward(self, x, key, value, mask=None):
        y = F.scaled_dot_product_attention(self.split(self.query(x)), key, value, attn_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2))


def feed_forward(config):
    return nn.Sequential(nn.Linear(config.width, 4 * config.width), nn.GELU(), nn.Linear(4 * config.width, config.width))


class EncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = Attention(config)
        self.mlp = feed_forward(config)
        self.norm1, self.norm2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)

    def forward(self, x, mask):
        h = self.norm1(x)
        x = x + self.attention(h, *self.attention.keys_values(h), mask)
        return x + self.mlp(self.norm2(x))


class DecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention, self.cross = Attention(config), Attention(config)
        self.mlp = feed_forward(config)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(config.width) for _ in range(3))

    def forward(self, x, cache, mask):
        h = self.norm1(x)
        key, value = self.attention.keys_values(h)
        if "self_key" in cache:
            key = torch.cat([cache["self_key"], key], dim=2)
            value = torch.cat([cache["self_value"], value], dim=2)
        cache["self_key"], cache["self_value"] = key, value
        x = x + self.attention(h, key, value)
        x = x + self.cross(self.norm2(x), cache["memory_key"], cache["memory_value"], mask)
        return x + self.mlp(self.norm3(x))


class Translator(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.vocabulary, config.width, padding_idx=PAD)
        self.places = nn.Embedding(config.longest, config.width)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)

    def encode(self, source, mask):
        x = self.embed(source) + self.places.weight[:source.size(1)]
        for layer in self.encoder:
            x = layer(x, mask)
        return x

    def start(self, memory, beams):
        """For each layer the memory's keys and values, projected once for a batch and repeated for its beams."""
        cache = []
        for layer in self.decoder:
            key, value = layer.cross.keys_values(memory)
            cache.append({
                "memory_key": key.repeat_interleave(beams, dim=0),
                "memory_value": value.repeat_interleave(beams, dim=0),
            })
        return cache

    def decode(self, tokens, place, cache, mask):
        x = self.embed(tokens).unsqueeze(1) + self.places.weight[place]
        for layer, part in zip(self.decoder, cache):
            x = layer(x, part, mask)
        return F.linear(self.norm(x[:, 0]), self.embed.weight)


def reorder(cache, rows):
    """Each hypothesis goes on from the one that it was made of."""
    for part in cache:
        for name, tensor in part.items():
            if name.startswith("self"):  # the memory is the same for all hypotheses of a sentence
                part[name] = tensor.index_select(0, rows)


@torch.inference_mode()
def beam_search(model, source, beams, longest):
    batch = source.size(0)
    mask = (source != PAD)[:, None, None, :]
    cache = model.start(model.encode(source, mask), beams)
    mask = mask.repeat_interleave(beams, dim=0)

    scores = torch.full((batch, beams), float("-inf"))
    scores[:, 0] = 0.0
    tokens = torch.full((batch * beams,), BOS)
    output = torch.full((batch * beams, longest), PAD)
    finished = torch.zeros(batch, beams, dtype=torch.bool)
    base = (torch.arange(batch) * beams).unsqueeze(1)
    for place in range(longest):
        logp = F.log_softmax(model.decode(tokens, place, cache, mask), dim=-1).view(batch, beams, -1)
        if finished.any():
            logp[finished] = float("-inf")
            logp[..., PAD][finished] = 0.0
        size = logp.size(-1)
        scores, flat = (logp + scores.unsqueeze(-1)).flatten(1).topk(beams, dim=1)
        origin, word = flat // size, flat % size
        rows = (base + origin).flatten()
        tokens = word.flatten()
        output = output.index_select(0, rows)
        output[:, place] = tokens
        finished = finished.gather(1, origin) | (word == EOS)
        if finished.all():
            break
        reorder(cache, rows)
    return output.view(batch, beams, longest)[:, 0], scores[:, 0]


def corpus(count, vocabulary, gen):
    """Sentences of 96 to 144 words, padded within a batch."""
    lengths = torch.randint(96, 145, (count,), generator=gen)
    source = torch.randint(3, vocabulary, (count, int(lengths.max())), generator=gen)
    source[torch.arange(source.size(1)) >= lengths.unsqueeze(1)] = PAD
    return source


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--beams", type=int, default=6)
    parser.add_argument("--longest", type=int, default=16)
    args = parser.parse_args()

    torch.manual_seed(0)
    config = Config()
    model = Translator(config).eval()
    nn.init.normal_(model.embed.weight, std=0.05)
    gen = torch.Generator().manual_seed(1)
    total, words = 0.0, 0
    for _ in range(args.steps):
        source = corpus(args.batch_size, config.vocabulary, gen)
        translated, scores = beam_search(model, source, args.beams, args.longest)
        total += scores.sum().item()
        words += int(translated.sum())
    print(f"score {total / args.steps:.4f} words {words}")


if __name__ == "__main__":
    main()
