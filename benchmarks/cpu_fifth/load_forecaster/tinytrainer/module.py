import torch.nn as nn


class TrainModule(nn.Module):
    """What a Trainer drives: a model that knows its loss and its optimizer."""

    def training_step(self, batch):
        raise NotImplementedError

    def validation_step(self, batch):
        raise NotImplementedError

    def configure_optimizers(self):
        """Returns (optimizer, scheduler or None)."""
        raise NotImplementedError
