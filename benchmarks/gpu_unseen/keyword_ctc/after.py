"""Fine-tune a wav2vec2 encoder with CTC on short voice commands."""
import argparse
import json
import time

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

from augment_after import AddNoise, Augment, SpeedPerturb

class CommandDataset(Dataset):
    def __init__(self, n_utterances, n_samples, sample_rate, n_letters):
        g = torch.Generator().manual_seed(3)
        self.n = n_utterances
        t = torch.arange(n_samples) / sample_rate
        freqs = 150 + 600 * torch.rand(32, 1, generator=g)
        self.bank = 0.3 * torch.sin(2 * torch.pi * freqs * t) + 0.02 * torch.randn(32, n_samples, generator=g)
        self.labels = torch.randint(1, n_letters, (n_utterances, max(2, n_samples // 8000)), generator=g)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.bank[i % 32], self.labels[i]


def build_model(small, n_letters):
    config = Wav2Vec2Config(
        vocab_size=n_letters,
        hidden_size=64 if small else 768,
        num_hidden_layers=2 if small else 8,
        num_attention_heads=4 if small else 12,
        intermediate_size=128 if small else 3072,
        conv_dim=(32,) * 7 if small else (512,) * 7,
        num_conv_pos_embedding_groups=4 if small else 16,
        num_conv_pos_embeddings=16 if small else 128,
        mask_time_prob=0.0,
        layerdrop=0.0,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
        pad_token_id=0,
    )
    model = Wav2Vec2ForCTC(config)
    model.freeze_feature_encoder()
    return model


def train_step(model, optimizer, augment, waves, labels, device):
    inputs = augment(waves)
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        loss = model(input_values=inputs, labels=labels).loss
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    opt = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    n_letters = 32
    sample_rate = 500 if opt.small else 16000
    batch = 4 if opt.small else 16
    n_samples = 4 * sample_rate if opt.small else 8 * sample_rate

    model = build_model(opt.small, n_letters).to(device)
    model.train()
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-4, fused=device.type == "cuda")
    augment = Augment(
        [SpeedPerturb(sample_rate, prob=0.25), AddNoise(snr_db=20.0)],
        out_len=n_samples,
    )

    commands = CommandDataset((opt.steps + 10) * batch, n_samples, sample_rate, n_letters)
    loader = DataLoader(
        commands,
        batch_size=batch,
        shuffle=True,
        num_workers=0 if opt.small else 4,
        pin_memory=device.type == "cuda",
        drop_last=True,
    )

    total = torch.zeros((), device=device)
    start = time.perf_counter()
    for step, (waves, labels) in enumerate(loader):
        if step == 10:
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
        waves = waves.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        total += train_step(model, optimizer, augment, waves, labels, device)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start

    print("mean loss:", (total / (opt.steps + 10)).item())
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0
    print(json.dumps({"ms": 1000 * seconds / opt.steps, "peak_mb": peak}))


if __name__ == "__main__":
    main()
