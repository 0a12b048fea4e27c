import torch


class MeanMetric:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.weight = 0.0, 0

    def update(self, value, weight=1):
        self.total += float(value) * weight
        self.weight += weight

    def compute(self):
        return self.total / max(1, self.weight)


class BinaryAveragePrecision:
    """Exact area under the precision-recall curve over all scores since reset()."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.preds, self.target = [], []

    @torch.no_grad()
    def update(self, preds, target):
        self.preds.append(preds.detach().reshape(-1))
        self.target.append(target.detach().reshape(-1).bool())

    @torch.no_grad()
    def compute(self):
        preds, target = torch.cat(self.preds), torch.cat(self.target)
        order = torch.argsort(preds, descending=True)
        hits = target[order].float()
        tp = hits.cumsum(0)
        precision = tp / torch.arange(1, len(tp) + 1, device=tp.device)
        return (precision * hits).sum() / tp[-1].clamp(min=1)
