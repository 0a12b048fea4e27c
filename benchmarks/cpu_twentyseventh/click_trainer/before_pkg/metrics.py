import torch


class Metric:
    def __init__(self):
        self.reset()

    def reset(self):
        self.scores = []
        self.targets = []

    def update(self, scores, targets):
        self.scores.append(scores.detach())
        self.targets.append(targets.detach())

    def collect(self):
        return torch.cat(self.scores), torch.cat(self.targets)


class BinaryAUROC(Metric):
    """Area under the ROC curve over everything since the last reset."""

    def compute(self):
        scores, targets = self.collect()
        order = torch.argsort(scores, descending=True)
        ranked = targets[order]
        tp = torch.cumsum(ranked, 0)
        fp = torch.cumsum(1 - ranked, 0)
        tpr = tp / tp[-1].clamp(min=1)
        fpr = fp / fp[-1].clamp(min=1)
        return torch.trapezoid(tpr, fpr).item()


class BinaryLogLoss(Metric):
    def compute(self):
        scores, targets = self.collect()
        p = torch.sigmoid(scores).clamp(1e-6, 1 - 1e-6)
        return -(targets * p.log() + (1 - targets) * (1 - p).log()).mean().item()
