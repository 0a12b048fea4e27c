from torch import nn


class StriderModule(nn.Module):
    """Base class: subclasses say how a step is computed, the trainer runs the loops."""

    trainer = None

    def training_step(self, batch, batch_idx):
        raise NotImplementedError

    def validation_step(self, batch, batch_idx):
        return None

    def configure_optimizers(self):
        raise NotImplementedError

    def log(self, name, value):
        self.trainer.logged.setdefault(name, []).append(value.detach() if hasattr(value, "detach") else value)
