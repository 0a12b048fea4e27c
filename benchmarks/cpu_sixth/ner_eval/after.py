"""Evaluate a named-entity tagger on the test split and print the tag report."""
import argparse
import os
import statistics
import time

import torch
import torch.nn.functional as F

from tagger.data import IGNORE, TAGS, make_batches, make_corpus
from tagger.metrics_after import TagScorer
from tagger.model import TokenTagger


def get_args():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--checkpoint", default=None, help="state dict to load; random weights if absent")
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--vocab", type=int, default=8000)
    ap.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 120)))
    return ap.parse_args()


@torch.inference_mode()
def evaluate(model, batches, scorer):
    """Returns (mean loss, list of seconds per batch)."""
    model.eval()
    total, count, seconds = 0.0, 0, []
    for tokens, labels in batches:
        start = time.perf_counter()
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE)
        scorer.update(logits, labels)
        total += loss.item()
        count += 1
        seconds.append(time.perf_counter() - start)
    return total / count, seconds


def main():
    args = get_args()
    torch.manual_seed(99)
    model = TokenTagger(args.vocab, len(TAGS))
    if args.checkpoint:
        model.load_state_dict(torch.load(args.checkpoint, map_location="cpu"))
    corpus = make_corpus(args.batch_size * args.steps, args.vocab, seed=99)
    batches = list(make_batches(corpus, args.batch_size))
    scorer = TagScorer(TAGS)

    mean_loss, seconds = evaluate(model, batches, scorer)
    print(f"{'tag':8s} {'prec':>7s} {'recall':>7s} {'f1':>7s}")
    for tag, (p, r, f1) in scorer.report().items():
        print(f"{tag:8s} {p:7.4f} {r:7.4f} {f1:7.4f}")
    print(f"loss {mean_loss:.6f}  tokens {int(scorer.matrix.sum())}  correct {int(scorer.matrix.diag().sum())}")
    print(f"step {statistics.median(seconds[5:]) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
