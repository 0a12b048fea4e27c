import torch.nn as nn


class TaskModule(nn.Module):
    """Base class: subclasses define the steps and the optimizer, the trainer runs them."""

    def __init__(self):
        super().__init__()
        self.logged = {}

    def log(self, name, value):
        self.logged[name] = float(value)

    def training_step(self, batch, batch_idx):
        """Returns a dict with 'loss', 'scores' and 'targets'."""
        raise NotImplementedError

    def configure_optimizers(self):
        raise NotImplementedError

    def train_metrics(self):
        return {}
