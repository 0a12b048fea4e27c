import torch
import torch.nn.functional as F
from torch import nn


def _stage(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class LeafClassifier(nn.Module):
    def __init__(self, num_classes=5, width=24, lr=2e-3):
        super().__init__()
        self.lr = lr
        self.body = nn.Sequential(_stage(3, width), _stage(width, 2 * width),
                                  _stage(2 * width, 4 * width))
        self.head = nn.Linear(4 * width, num_classes)

    def forward(self, x):
        return self.head(self.body(x).mean(dim=(2, 3)))

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y, label_smoothing=0.05)
        return {"loss": loss, "acc": (logits.detach().argmax(1) == y).float().mean()}

    def configure_optimizers(self, total_steps):
        opt = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-2)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=total_steps)
        return opt, sched
