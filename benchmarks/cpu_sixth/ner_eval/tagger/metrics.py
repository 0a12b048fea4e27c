"""Token-level precision / recall / F1 per tag."""
import torch

from .data import IGNORE


class TagScorer:
    """Accumulates a confusion matrix (rows: gold, columns: predicted)."""

    def __init__(self, tags):
        self.tags = tags
        self.matrix = torch.zeros(len(tags), len(tags), dtype=torch.long)

    def update(self, logits, labels):
        preds = logits.argmax(dim=-1)
        for i in range(labels.shape[0]):
            for j in range(labels.shape[1]):
                gold = labels[i, j].item()
                if gold == IGNORE:
                    continue
                self.matrix[gold, preds[i, j].item()] += 1

    def report(self):
        m = self.matrix.double()
        tp = m.diag()
        precision = tp / m.sum(0).clamp(min=1)
        recall = tp / m.sum(1).clamp(min=1)
        f1 = 2 * precision * recall / (precision + recall).clamp(min=1e-12)
        return {t: (precision[i].item(), recall[i].item(), f1[i].item())
                for i, t in enumerate(self.tags)}
