"""A small masked language model learns from a larger one (words and soft targets)."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, MASK, IGNORE = 5000, 1, -100


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Body(nn.Module):
    def __init__(self, width, layers, longest=128):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(longest, width)
        self.layers = nn.ModuleList(Layer(width, 4) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.words(ids) + self.places.weight[:ids.size(1)]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Head(nn.Module):
    """Hidden states to words; the last matrix is the embedding's."""

    def __init__(self, words):
        super().__init__()
        width = words.embedding_dim
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.weight = words.weight
        self.bias = nn.Parameter(torch.zeros(VOCABULARY))

    def forward(self, x):
        return F.linear(self.transform(x), self.weight, self.bias)


class MaskedModel(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.body = Body(width, layers)
        nn.init.normal_(self.body.words.weight, std=0.04)
        self.head = Head(self.body.words)

    def forward(self, ids):
        return self.head(self.body(ids))


class Masker:
    """Makes batches: one word in seven is hidden, and only these are asked for."""

    def __init__(self, count, longest, rate=0.15, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        weights = 1 / torch.arange(1, VOCABULARY - 1, dtype=torch.float32)
        text = torch.multinomial(weights, count * longest, replacement=True, generator=self.gen) + 2
        self.text = text.view(count, longest)
        self.rate = rate

    def batch(self, size):
        ids = self.text[torch.randint(len(self.text), (size,), generator=self.gen)]
        hidden = torch.rand(ids.shape, generator=self.gen) < self.rate
        return ids.masked_fill(hidden, MASK), ids.masked_fill(~hidden, IGNORE)


class Distiller:
    def __init__(self, student, teacher, lr=5e-4, temperature=2.0, soft=0.5):
        self.student = student
        self.teacher = teacher.eval().requires_grad_(False)
        self.temperature, self.soft = temperature, soft
        self.optimizer = torch.optim.AdamW(student.parameters(), lr=lr)

    def step(self, ids, labels):
        asked = labels != IGNORE
        with torch.no_grad():
            teacher_logits = self.teacher(ids)
        logits = self.student(ids)
        hard = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE)
        t = self.temperature
        soft = F.kl_div(
            F.log_softmax(logits[asked] / t, dim=-1), F.log_softmax(teacher_logits[asked] / t, dim=-1),
            reduction="batchmean", log_target=True) * t * t
        loss = (1 - self.soft) * hard + self.soft * soft
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--longest", type=int, default=64)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = Masker(400, args.longest)
    distiller = Distiller(MaskedModel(128, 2), MaskedModel(192, 4))
    total = torch.zeros(())
    for _ in range(args.steps):
        total += distiller.step(*data.batch(args.batch_size))
    print(f"mean loss {total.item() / args.steps:.5f}")


if __name__ == "__main__":
    main()
