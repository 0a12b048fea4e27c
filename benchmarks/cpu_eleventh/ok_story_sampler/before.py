"""Batch sampling from a small character-level GPT, as a story-prompt web demo does."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

ALPHABET = "abcdefghijklmnopqrstuvwxyz .,;!?'-\n0123456789"
CONTEXT = 256
TEMPERATURE = 0.9
TOP_K = 20


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def allocate(self, batch):
        shape = (batch, self.heads, CONTEXT, self.proj.in_features // self.heads)
        self.keys, self.values = torch.zeros(shape), torch.zeros(shape)

    def forward(self, x, start):
        b, n, d = x.shape
        qkv = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        end = start + n
        self.keys[:, :, start:end] = k
        self.values[:, :, start:end] = v
        # a prompt is read causally; a single new character sees everything before it
        out = F.scaled_dot_product_attention(
            q, self.keys[:, :, :end], self.values[:, :, :end], is_causal=n > 1
        )
        return self.proj(out.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, start):
        x = x + self.attn(self.norm1(x), start)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class CharGPT(nn.Module):
    def __init__(self, dim=256, heads=4, depth=4):
        super().__init__()
        self.token = nn.Embedding(len(ALPHABET), dim)
        self.position = nn.Embedding(CONTEXT, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, len(ALPHABET), bias=False)

    def start(self, batch):
        for block in self.blocks:
            block.attn.allocate(batch)

    def forward(self, ids, start):
        x = self.token(ids) + self.position.weight[start : start + ids.size(1)]
        for block in self.blocks:
            x = block(x, start)
        return self.head(self.norm(x[:, -1]))


def pick(logits, g):
    top, index = (logits / TEMPERATURE).topk(TOP_K, dim=1)
    choice = torch.multinomial(top.softmax(dim=1), 1, generator=g)
    return index.gather(1, choice), top.log_softmax(dim=1).gather(1, choice)


@torch.inference_mode()
def generate(model, prompts, length, g):
    """Yields (character ids, log-probability) for each new position."""
    model.start(len(prompts))
    ids, position = prompts, 0
    for _ in range(length):
        logits = model(ids, position)
        position += ids.size(1)
        ids, log_prob = pick(logits, g)
        yield ids, log_prob


def requests(n, group=4, prompt_length=40, seed=12):
    """Each request: a few openings, cut to the same length by the front end."""
    rng = random.Random(seed)
    words = "once the old clock a station sea rain letter nobody believed until morning 40 days".split()
    for _ in range(n):
        texts = [" ".join(rng.choices(words, k=20))[:prompt_length] for _ in range(group)]
        yield torch.tensor([[ALPHABET.index(c) for c in text] for text in texts])


def serve(model, stream, length=12):
    g = torch.Generator().manual_seed(1)
    stories, total, count = [], 0.0, 0
    for prompts in stream:
        chars, log_probs = zip(*generate(model, prompts, length, g))
        text = torch.cat(chars, dim=1).tolist()
        stories.extend("".join(ALPHABET[i] for i in row) for row in text)
        total += torch.cat(log_probs, dim=1).sum().item()
        count += prompts.size(0) * length
    return stories, total / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="number of requests")
    args = parser.parse_args()

    torch.manual_seed(0)
    model = CharGPT().eval()
    stories, log_prob = serve(model, requests(args.steps))
    print(f"{len(stories)} stories, mean log-probability {log_prob:.4f}")


if __name__ == "__main__":
    main()
