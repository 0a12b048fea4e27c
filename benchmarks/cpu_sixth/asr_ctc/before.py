"""CTC acoustic model: Conv + GRU over log-mel frames, character targets."""
import argparse
import logging
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCAB = "_abcdefghijklmnopqrstuvwxyz '"
logger = logging.getLogger("asr")


class Utterances(Dataset):
    """Pre-computed log-mel features (float16 on purpose, to keep RAM low)."""

    def __init__(self, count=400, n_mels=80, seed=0):
        rng = np.random.default_rng(seed)
        # read speech: many short commands, few long sentences
        frames = np.clip(rng.lognormal(5.2, 0.55, count), 80, 1200).astype(int)
        prototypes = rng.normal(0, 1, (len(VOCAB), n_mels))
        self.items = []
        for n in frames:
            text = rng.integers(1, len(VOCAB), max(3, n // 14))
            track = np.repeat(text, -(-n // len(text)))[:n]
            feats = prototypes[track] + rng.normal(0, 0.7, (n, n_mels))
            self.items.append((feats.astype(np.float16), text))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        feats, text = self.items[i]
        return torch.from_numpy(feats.astype(np.float32)), torch.from_numpy(text)


class Collator:
    """Stacks utterances of different durations into one padded tensor."""

    def __init__(self, dataset):
        self.max_frames = max(len(f) for f, _ in dataset.items)

    def __call__(self, batch):
        feats, texts = zip(*batch)
        frame_lens = torch.tensor([len(f) for f in feats])
        text_lens = torch.tensor([len(t) for t in texts])
        width = self.max_frames
        padded = torch.zeros(len(feats), width, feats[0].shape[1])
        for i, f in enumerate(feats):
            padded[i, : len(f)] = f
        return padded, frame_lens, torch.cat(texts), text_lens


class AcousticModel(nn.Module):
    def __init__(self, n_mels=80, hidden=160, layers=2):
        super().__init__()
        self.conv = nn.Conv1d(n_mels, hidden, 5, stride=2, padding=2)
        self.norm = nn.LayerNorm(hidden)
        self.rnn = nn.GRU(hidden, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, len(VOCAB))

    def forward(self, x, lens):
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        x = torch.relu(self.norm(x))
        x, _ = self.rnn(x)
        return self.out(x).log_softmax(-1), (lens - 1) // 2 + 1


def greedy_text(log_probs, length):
    ids = torch.unique_consecutive(log_probs[:length].argmax(-1))
    return "".join(VOCAB[i] for i in ids.tolist() if i != 0)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--workers", type=int, default=1)
    ap.add_argument("--clip", type=float, default=5.0)
    ap.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 60)))
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    torch.manual_seed(2024)

    dataset = Utterances()
    logger.info("%d utterances", len(dataset))
    loader = DataLoader(dataset, args.batch_size, shuffle=True, drop_last=True,
                        num_workers=args.workers, persistent_workers=True,
                        collate_fn=Collator(dataset))
    model = AcousticModel()
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)

    durations, losses, step, epoch = [], [], 0, 0
    while step < args.steps:
        tic = time.perf_counter()
        for feats, frame_lens, targets, target_lens in loader:
            log_probs, out_lens = model(feats, frame_lens)
            loss = ctc(log_probs.transpose(0, 1), targets, out_lens, target_lens)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            opt.step()
            losses.append(loss.item())
            durations.append(time.perf_counter() - tic)
            step += 1
            if step % 25 == 0:
                logger.info("step %d ctc %.5f", step, losses[-1])
            if step >= args.steps:
                break
            tic = time.perf_counter()
        epoch += 1
    logger.info("sample: %r", greedy_text(log_probs[0].detach(), int(out_lens[0])))
    print("loss first/last", f"{losses[0]:.6f} {losses[-1]:.6f}")
    steady = durations[5:]
    # batches differ in length, so the mean is the honest figure
    print(f"step {1000 * sum(steady) / len(steady):.2f} ms")


if __name__ == "__main__":
    main()
