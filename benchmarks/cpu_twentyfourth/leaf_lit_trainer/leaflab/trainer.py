"""A very small training loop with callbacks."""
import torch


class Callback:
    def on_train_start(self, trainer, module):
        pass

    def on_train_batch_end(self, trainer, module, outputs, batch_idx):
        pass

    def on_train_end(self, trainer, module):
        pass


class Trainer:
    def __init__(self, max_steps, callbacks=(), gradient_clip_val=None):
        self.max_steps = max_steps
        self.callbacks = list(callbacks)
        self.gradient_clip_val = gradient_clip_val
        self.global_step = 0

    def _call(self, hook, *args):
        for cb in self.callbacks:
            getattr(cb, hook)(self, *args)

    def fit(self, module, datamodule):
        datamodule.setup()
        loader = datamodule.train_dataloader()
        optimizer, scheduler = module.configure_optimizers(self.max_steps)
        module.train()
        self._call("on_train_start", module)
        while self.global_step < self.max_steps:
            for batch_idx, batch in enumerate(loader):
                outputs = module.training_step(batch, batch_idx)
                optimizer.zero_grad(set_to_none=True)
                outputs["loss"].backward()
                if self.gradient_clip_val is not None:
                    torch.nn.utils.clip_grad_norm_(module.parameters(), self.gradient_clip_val)
                optimizer.step()
                scheduler.step()
                self.global_step += 1
                self._call("on_train_batch_end", module, outputs, batch_idx)
                if self.global_step >= self.max_steps:
                    break
        self._call("on_train_end", module)
