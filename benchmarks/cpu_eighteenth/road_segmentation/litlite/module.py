import torch


class LiteModule(torch.nn.Module):
    """Model + optimisation recipe; the Trainer drives the hooks."""

    def __init__(self):
        super().__init__()
        self.trainer = None

    def log(self, name, value, prog_bar=False):
        self.trainer.logged[name] = float(value)
        if prog_bar:
            self.trainer.bar_keys.setdefault(name)

    def training_step(self, batch, batch_idx):
        raise NotImplementedError

    def validation_step(self, batch, batch_idx):
        pass

    def on_train_epoch_start(self):
        pass

    def on_train_epoch_end(self):
        pass

    def on_validation_epoch_end(self):
        pass

    def configure_optimizers(self):
        raise NotImplementedError
