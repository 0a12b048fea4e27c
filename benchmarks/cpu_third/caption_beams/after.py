"""Caption held-out images with an attentive GRU decoder and beam search; reports mean scores."""
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn

BOS, EOS = 1, 2


class RegionEncoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 5, stride=4, padding=2), nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(64, width, 3, stride=2, padding=1),
        )

    def forward(self, image):
        return self.layers(image).flatten(2).transpose(1, 2)


class Decoder(nn.Module):
    def __init__(self, vocab, width, regions):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.query = nn.Linear(width, regions)
        self.cell = nn.GRUCell(width + regions, width)
        self.init = nn.Linear(regions, width)
        self.out = nn.Linear(width, vocab)

    def start(self, memory):
        return torch.tanh(self.init(memory.mean(1)))

    def step(self, token, state, memory):
        """token (n,), state (n, width), memory (n, regions, channels) -> log-probs, state"""
        score = torch.bmm(memory, self.query(state).unsqueeze(2)).squeeze(2)
        context = torch.bmm(score.softmax(1).unsqueeze(1), memory).squeeze(1)
        state = self.cell(torch.cat([self.embed(token), context], 1), state)
        return F.log_softmax(self.out(state), dim=1), state


class Hypothesis:
    def __init__(self, tokens, score, state):
        self.tokens, self.score, self.state = tokens, score, state

    def extend(self, token, logprob, state):
        return Hypothesis(self.tokens + [token], self.score + logprob, state)

    @property
    def finished(self):
        return self.tokens[-1] == EOS

    def normalised(self, alpha=0.7):
        return self.score / len(self.tokens) ** alpha


def beam_search(decoder, memory, beam, max_length):
    hypotheses = [Hypothesis([BOS], 0.0, decoder.start(memory))]
    done = []
    for _ in range(max_length):
        candidates = []
        tokens = torch.tensor([hyp.tokens[-1] for hyp in hypotheses])
        states = torch.cat([hyp.state for hyp in hypotheses])
        logprobs, states = decoder.step(tokens, states, memory.expand(len(hypotheses), -1, -1))
        values, indices = logprobs.topk(beam, dim=1)
        for row, hyp in enumerate(hypotheses):
            for value, index in zip(values[row].tolist(), indices[row].tolist()):
                candidates.append(hyp.extend(index, value, states[row:row + 1]))
        candidates.sort(key=lambda h: h.score, reverse=True)
        hypotheses = []
        for hyp in candidates[:beam]:
            (done if hyp.finished else hypotheses).append(hyp)
        if len(done) >= beam or not hypotheses:
            break
    return max(done or hypotheses, key=Hypothesis.normalised)


class Captioner(nn.Module):
    def __init__(self, vocab=5000, width=256, regions=128):
        super().__init__()
        self.encoder = RegionEncoder(regions)
        self.decoder = Decoder(vocab, width, regions)

    @torch.inference_mode()
    def caption(self, image, beam, max_length):
        memory = self.encoder(image.unsqueeze(0))
        return beam_search(self.decoder, memory, beam, max_length)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="images to caption")
    parser.add_argument("--beam", type=int, default=8)
    parser.add_argument("--max-length", type=int, default=14)
    args = parser.parse_args()
    torch.manual_seed(30)
    model = Captioner().eval()
    generator = torch.Generator().manual_seed(31)
    times, scores, lengths = [], [], []
    for n in range(args.steps):
        image = torch.rand(3, 160, 160, generator=generator)
        tick = time.perf_counter()
        best = model.caption(image, args.beam, args.max_length)
        times.append(time.perf_counter() - tick)
        scores.append(best.normalised())
        lengths.append(len(best.tokens) - 1)
        if (n + 1) % 20 == 0:
            print(f"{n + 1} images, mean score {sum(scores) / len(scores):.5f}, "
                  f"mean length {sum(lengths) / len(lengths):.2f}")
    kept = times[5:] or times
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
