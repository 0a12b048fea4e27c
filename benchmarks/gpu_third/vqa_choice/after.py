"""Train a multiple-choice visual question answering model."""
import argparse
import json
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def transformer(dim, depth, heads):
    layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, activation="gelu",
                                       batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, depth, nn.LayerNorm(dim), enable_nested_tensor=False)


class ImageEncoder(nn.Module):
    """Plain ViT that returns its patch tokens."""

    def __init__(self, size, patch, dim, depth, heads):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, stride=patch)
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2, dim) * 0.02)
        self.layers = transformer(dim, depth, heads)

    def forward(self, images):
        return self.layers(self.patch(images).flatten(2).transpose(1, 2) + self.pos)


class TextEncoder(nn.Module):
    def __init__(self, vocab, length, dim, depth, heads):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(1, length, dim) * 0.02)
        self.layers = transformer(dim, depth, heads)

    def forward(self, ids):
        return self.layers(self.tok(ids) + self.pos[:, :ids.shape[1]])


class Fusion(nn.Module):
    """The text attends to the image; the first token gives the score."""

    def __init__(self, dim, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.score = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, 1))

    def forward(self, text, image):
        mixed, _ = self.attn(text, image, image, need_weights=False)
        return self.score(self.norm(text + mixed)[:, 0]).squeeze(-1)


class ChoiceVQA(nn.Module):
    def __init__(self, size, patch, vocab, length, dim, image_depth, text_depth, heads):
        super().__init__()
        self.image_encoder = ImageEncoder(size, patch, dim, image_depth, heads)
        self.text_encoder = TextEncoder(vocab, length, dim, text_depth, heads)
        self.fusion = Fusion(dim, heads)

    def score(self, image_tokens, text):
        text_tokens = self.text_encoder(text)
        return self.fusion(text_tokens, image_tokens)

    def forward(self, images, question, answers):
        """images (B, 3, H, W), question (B, Q), answers (B, choices, A) -> logits (B, choices)"""
        image_tokens = self.image_encoder(images)
        logits = []
        for i in range(answers.shape[1]):
            text = torch.cat([question, answers[:, i]], dim=1)
            logits.append(self.score(image_tokens, text))
        return torch.stack(logits, dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_cuda = device.type == "cuda"
    if args.small:
        size, vocab, batch_size, count, shape = 32, 100, 4, 32, (64, 2, 1, 2)
    else:
        size, vocab, batch_size, count, shape = 224, 10000, 64, 512, (384, 6, 2, 6)
    choices, question_len, answer_len = 5, 20, 12
    dim, image_depth, text_depth, heads = shape

    with device:
        model = ChoiceVQA(size, 16, vocab, question_len + answer_len, dim, image_depth, text_depth, heads)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, fused=use_cuda)

    # decoded images and token ids, cached on the device
    images = torch.randn(count, 3, size, size, device=device)
    questions = torch.randint(0, vocab, (count, question_len), device=device)
    answers = torch.randint(0, vocab, (count, choices, answer_len), device=device)
    correct = torch.randint(0, choices, (count,), device=device)

    def train_step():
        idx = torch.randint(0, count, (batch_size,), device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_cuda):
            logits = model(images[idx], questions[idx], answers[idx])
        loss = F.cross_entropy(logits.float(), correct[idx])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    for _ in range(5):
        train_step()
    if use_cuda:
        torch.cuda.synchronize()
    losses = []
    start = time.perf_counter()
    for _ in range(args.steps):
        losses.append(train_step())
    if use_cuda:
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    losses = torch.stack(losses).cpu()
    print(f"loss first {losses[0]:.4f} last {losses[-1]:.4f} mean {losses.mean():.4f}")
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
