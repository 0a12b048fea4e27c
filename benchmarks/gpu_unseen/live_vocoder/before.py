"""Low-latency speech synthesis: mel frames arrive in chunks, 16-bit samples leave."""
import argparse
import json
import time

import torch

from generator import Generator

WARMUP = 10
HOP = 256


class MelFeed:
    """Stands for the acoustic model: a smooth log-mel track, read a chunk at a time."""

    def __init__(self, mels, chunk, context, device):
        track = torch.randn(1, mels, 512, device=device)
        self.track = torch.nn.functional.avg_pool1d(track, 5, stride=1, padding=2) * 2 - 4
        self.chunk, self.context = chunk, context
        self.cursor = 0

    def next(self):
        need = self.chunk + 2 * self.context
        if self.cursor + need > self.track.shape[-1]:
            self.cursor = 0
        window = self.track[..., self.cursor:self.cursor + need]
        self.cursor += self.chunk
        return window


class StreamingVocoder:
    def __init__(self, generator, chunk, context, fade, device):
        self.generator = generator
        self.chunk, self.context = chunk * HOP, context * HOP
        self.fade = fade
        self.ramp = torch.linspace(0, 1, fade, device=device)
        self.tail = torch.zeros(fade, device=device)

    @torch.inference_mode()
    def push(self, mel):
        audio = self.generator(mel)[0, 0]
        piece = audio[self.context:self.context + self.chunk + self.fade]
        head = piece[:self.fade] * self.ramp + self.tail * (1 - self.ramp)
        self.tail = piece[self.chunk:]
        out = torch.cat([head, piece[self.fade:self.chunk]])
        return (out.clamp(-1, 1) * 32767).to(torch.int16).cpu().numpy()


def load_generator(mels, channels, device, checkpoint=None):
    generator = Generator(mels, channels)
    if checkpoint is not None:
        generator.load_state_dict(torch.load(checkpoint, map_location="cpu")["generator"])
    return generator.to(device).eval()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    mels, channels, chunk, context, fade = (8, 16, 4, 1, 64) if args.small else (80, 512, 24, 4, 256)
    generator = load_generator(mels, channels, device, args.checkpoint)
    feed = MelFeed(mels, chunk, context, device)
    vocoder = StreamingVocoder(generator, chunk, context, fade, device)

    samples = 0
    level = 0.0
    for step in range(WARMUP + args.steps):
        if step == WARMUP:
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
        pcm = vocoder.push(feed.next())
        samples += len(pcm)
        level = max(level, abs(int(pcm[0])))

    if device == "cuda":
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    print(f"{samples} samples, level {level}")
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0
    print(json.dumps({"ms": elapsed / args.steps * 1e3, "peak_mb": peak}))


if __name__ == "__main__":
    main()
