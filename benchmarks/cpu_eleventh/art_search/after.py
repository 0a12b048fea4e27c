"""Visual search in a museum catalogue: embed an uploaded picture, return the nearest works."""
import argparse
import io
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw

SIZE = 96
PATCH = 8
DIM = 128
CATALOGUE = 20_000


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        h = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(h.transpose(1, 2).reshape(b, n, d))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class PictureEncoder(nn.Module):
    def __init__(self, depth=4, heads=4):
        super().__init__()
        self.patch = nn.Conv2d(3, DIM, PATCH, stride=PATCH)
        self.position = nn.Parameter(torch.randn(1, (SIZE // PATCH) ** 2, DIM) * 0.02)
        self.layers = nn.ModuleList(Layer(DIM, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(DIM)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.norm(x).mean(dim=1)


def uploads(n, seed=3):
    """PNG uploads of painted rectangles and ovals."""
    rng = random.Random(seed)
    for _ in range(n):
        canvas = Image.new("RGB", (480, 480), tuple(rng.randrange(256) for _ in range(3)))
        draw = ImageDraw.Draw(canvas)
        for _ in range(12):
            x, y = rng.randrange(420), rng.randrange(420)
            box = (x, y, x + rng.randint(20, 160), y + rng.randint(20, 160))
            shape = draw.ellipse if rng.random() < 0.5 else draw.rectangle
            shape(box, fill=tuple(rng.randrange(256) for _ in range(3)))
        buffer = io.BytesIO()
        canvas.save(buffer, "PNG", compress_level=1)
        yield buffer.getvalue()


def to_array(png):
    picture = Image.open(io.BytesIO(png)).convert("RGB").resize((SIZE, SIZE), Image.BICUBIC)
    return (np.asarray(picture, dtype=np.float32) / 127.5 - 1.0).transpose(2, 0, 1)


def load_encoder(device):
    torch.manual_seed(0)
    return PictureEncoder().to(device).eval()


class ArtSearch:
    def __init__(self, device="cpu", top=5):
        self.device = device
        self.top = top
        self.encoder = load_encoder(device)
        self.dtype = next(self.encoder.parameters()).dtype
        g = torch.Generator().manual_seed(8)
        self.catalogue = F.normalize(torch.randn(CATALOGUE, DIM, generator=g), dim=1).to(device)

    @torch.inference_mode()
    def query(self, png):
        image = torch.from_numpy(to_array(png)).unsqueeze(0).to(self.device, self.dtype)
        vector = F.normalize(self.encoder(image).float(), dim=1)
        scores = (vector @ self.catalogue.T).squeeze(0)
        best, index = scores.topk(self.top)
        return index.tolist(), best.tolist()


def serve(engine, requests):
    return [engine.query(png)[1][0] for png in requests]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    pictures = list(uploads(args.steps))
    engine = ArtSearch()
    best = serve(engine, pictures)
    print(f"{len(best)} queries, mean best score {sum(best) / len(best):.3f}")


if __name__ == "__main__":
    main()
