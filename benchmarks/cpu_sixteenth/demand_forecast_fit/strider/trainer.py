from contextlib import nullcontext

import torch
from torch import nn


class Trainer:
    def __init__(self, max_epochs=10, max_steps=-1, gradient_clip_val=None, accumulate_grad_batches=1, callbacks=(),
                 detect_anomaly=False, deterministic=False, precision="32", limit_val_batches=None):
        self.max_epochs, self.max_steps = max_epochs, max_steps
        self.clip, self.accumulate = gradient_clip_val, accumulate_grad_batches
        self.callbacks = list(callbacks)
        self.detect_anomaly = detect_anomaly
        self.precision = precision
        self.limit_val = limit_val_batches
        if deterministic:
            torch.use_deterministic_algorithms(True)
        self.global_step = self.current_epoch = 0
        self.should_stop = False
        self.logged = {}

    # ------------------------------------------------------------------ helpers
    def call(self, hook, *args):
        for cb in self.callbacks:
            getattr(cb, hook)(self, self.module, *args)

    def pop_logged(self):
        out = {k: float(torch.stack([torch.as_tensor(x) for x in v]).mean()) for k, v in self.logged.items()}
        self.logged = {}
        return out

    def precision_context(self):
        if self.precision == "bf16-mixed":
            return torch.autocast("cpu", dtype=torch.bfloat16)
        return nullcontext()

    # ------------------------------------------------------------------ loops
    def fit(self, module, datamodule):
        self.module, module.trainer = module, self
        datamodule.setup()
        self.optimizer, self.scheduler = module.configure_optimizers()
        self.call("on_fit_start")
        with torch.autograd.set_detect_anomaly(self.detect_anomaly):
            for self.current_epoch in range(self.max_epochs):
                self.train_epoch(datamodule.train_dataloader())
                metrics = self.validate(datamodule.val_dataloader())
                self.call("on_validation_end", metrics)
                if self.should_stop or self.global_step == self.max_steps:
                    break

    def train_epoch(self, loader):
        self.module.train()
        for i, batch in enumerate(loader):
            with self.precision_context():
                loss = self.module.training_step(batch, i)
            (loss / self.accumulate).backward()
            if (i + 1) % self.accumulate == 0:
                if self.clip:
                    nn.utils.clip_grad_norm_(self.module.parameters(), self.clip)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                self.scheduler.step()
                self.global_step += 1
            self.call("on_train_batch_end", i)
            if self.global_step == self.max_steps:
                return

    @torch.no_grad()
    def validate(self, loader):
        self.module.eval()
        self.pop_logged()
        for i, batch in enumerate(loader):
            if self.limit_val is not None and i >= self.limit_val:
                break
            self.module.validation_step(batch, i)
        return self.pop_logged()
