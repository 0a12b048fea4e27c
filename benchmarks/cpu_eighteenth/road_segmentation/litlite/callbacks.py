import os

import torch


class Callback:
    def on_train_batch_end(self, trainer, module, batch_idx):
        pass

    def on_validation_end(self, trainer, module):
        pass


class LearningRateMonitor(Callback):
    def on_train_batch_end(self, trainer, module, batch_idx):
        trainer.logged["lr"] = trainer.optimizer.param_groups[0]["lr"]


class ModelCheckpoint(Callback):
    def __init__(self, dirpath, monitor, mode="max"):
        self.dirpath, self.monitor, self.sign = dirpath, monitor, 1 if mode == "max" else -1
        self.best = None

    def on_validation_end(self, trainer, module):
        value = self.sign * trainer.logged[self.monitor]
        if self.best is None or value > self.best:
            self.best = value
            torch.save({"state_dict": module.state_dict(), "epoch": trainer.current_epoch},
                       os.path.join(self.dirpath, "best.ckpt"))
