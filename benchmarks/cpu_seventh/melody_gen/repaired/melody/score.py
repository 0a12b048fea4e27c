"""Tokens: 0 = bar line, 1 = rest, 2.. = pitch (two octaves) x duration (4)."""
import torch

BAR, REST = 0, 1
PITCHES, DURATIONS = 24, 4
VOCAB = 2 + PITCHES * DURATIONS
SCALES = [(0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 10), (0, 3, 5, 6, 7, 10)]


def compose(count, length, seed):
    """Random walks on a scale with bar lines every eight notes."""
    g = torch.Generator().manual_seed(seed)
    songs = torch.empty(count, length, dtype=torch.int64)
    for n in range(count):
        scale = SCALES[n % len(SCALES)]
        steps = torch.randint(-2, 3, (length,), generator=g)
        degree = (steps.cumsum(0) + 7) % (2 * len(scale))
        pitch = torch.tensor([scale[d % len(scale)] + 12 * (d // len(scale)) for d in degree.tolist()])
        duration = torch.randint(0, DURATIONS, (length,), generator=g)
        songs[n] = 2 + pitch * DURATIONS + duration
        songs[n, ::9] = BAR
        songs[n, torch.rand(length, generator=g) < 0.04] = REST
    return songs


def describe(tokens):
    """Share of rests, and mean leap in semitones between notes."""
    notes = tokens[tokens > REST]
    pitch = (notes - 2) // DURATIONS
    return (tokens == REST).float().mean().item(), pitch.diff().abs().float().mean().item()
