"""Pretrain a compact RoBERTa-style encoder with masked language modelling."""
import argparse
import json
import resource
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

MASK_ID, FIRST_TOKEN = 4, 5


class LMHead(nn.Module):
    """Transform, then project onto the (tied) word embeddings."""

    def __init__(self, dim, embedding):
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.decoder = nn.Linear(dim, embedding.num_embeddings)
        self.decoder.weight = embedding.weight

    def forward(self, x):
        return self.decoder(self.norm(F.gelu(self.dense(x))))


class MaskedLM(nn.Module):
    def __init__(self, vocab, dim, depth, heads, context):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(1, context, dim) * 0.02)
        nn.init.normal_(self.tok.weight, std=0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(dim),
                                             enable_nested_tensor=False)
        self.lm_head = LMHead(dim, self.tok)

    def forward(self, input_ids, labels):
        hidden = self.encoder(self.tok(input_ids) + self.pos[:, :input_ids.shape[1]])
        scores = self.lm_head(hidden)
        return F.cross_entropy(scores.view(-1, scores.shape[-1]).float(), labels.view(-1),
                               ignore_index=-100)


def mask_tokens(tokens, vocab, probability=0.15):
    """BERT's recipe: of the chosen tokens 80 % become <mask>, 10 % a random token."""
    chosen = torch.rand(tokens.shape, device=tokens.device) < probability
    labels = torch.where(chosen, tokens, -100)
    draw = torch.rand(tokens.shape, device=tokens.device)
    random_ids = torch.randint(FIRST_TOKEN, vocab, tokens.shape, device=tokens.device)
    inputs = torch.where(chosen & (draw < 0.8), MASK_ID, tokens)
    inputs = torch.where(chosen & (draw >= 0.8) & (draw < 0.9), random_ids, inputs)
    return inputs, labels


class Trainer:
    def __init__(self, args, device):
        self.device = device
        self.use_cuda = device.type == "cuda"
        if args.small:
            self.vocab, dim, depth, heads, context, self.batch_size = 1000, 64, 2, 2, 32, 8
        else:
            self.vocab, dim, depth, heads, context, self.batch_size = 50265, 512, 6, 8, 512, 64
        with device:
            self.model = MaskedLM(self.vocab, dim, depth, heads, context)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-4, betas=(0.9, 0.98),
                                           weight_decay=0.01, fused=self.use_cuda)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / 100))
        rng = np.random.default_rng(0)
        rows = 64 if args.small else 4096
        corpus = FIRST_TOKEN + rng.zipf(1.3, rows * context) % (self.vocab - FIRST_TOKEN)
        # the packed corpus is small enough to live on the device
        self.corpus = torch.from_numpy(corpus.reshape(rows, context)).to(device)

    def step(self):
        rows = torch.randint(0, len(self.corpus), (self.batch_size,), device=self.device)
        inputs, labels = mask_tokens(self.corpus[rows], self.vocab)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.use_cuda):
            loss = self.model(inputs, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def sync(self):
        if self.use_cuda:
            torch.cuda.synchronize()

    def fit(self, steps, warmup=5):
        for _ in range(warmup):
            self.step()
        self.sync()
        losses = []
        start = time.perf_counter()
        for _ in range(steps):
            losses.append(self.step())
        self.sync()
        return time.perf_counter() - start, torch.stack(losses).cpu()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trainer = Trainer(args, device)
    elapsed, losses = trainer.fit(args.steps)
    print(f"loss first {losses[0]:.4f} last {losses[-1]:.4f} mean {losses.mean():.4f}")
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
