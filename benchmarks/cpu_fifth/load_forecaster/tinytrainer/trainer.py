import torch


class Trainer:
    def __init__(self, max_steps, callbacks=(), gradient_clip_val=None, check_val_every_n_epoch=1,
                 detect_anomaly=False):
        self.max_steps = max_steps
        self.callbacks = list(callbacks)
        self.gradient_clip_val = gradient_clip_val
        self.check_val_every_n_epoch = check_val_every_n_epoch
        self.detect_anomaly = detect_anomaly
        self.global_step = 0
        self.epoch = 0
        self.should_stop = False

    def _call(self, hook, *args):
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)

    def fit(self, module, train_loader, val_loader=None):
        optimizer, scheduler = module.configure_optimizers()
        self._call("on_fit_start", module)
        with torch.autograd.set_detect_anomaly(self.detect_anomaly):
            while self.global_step < self.max_steps and not self.should_stop:
                self._train_epoch(module, train_loader, optimizer, scheduler)
                self.epoch += 1
                if val_loader is not None and self.epoch % self.check_val_every_n_epoch == 0:
                    self._call("on_validation_end", module, self.validate(module, val_loader))
        self._call("on_fit_end", module)

    def _train_epoch(self, module, loader, optimizer, scheduler):
        module.train()
        self._call("on_epoch_start", module)
        for batch in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = module.training_step(batch)
            loss.backward()
            if self.gradient_clip_val:
                torch.nn.utils.clip_grad_norm_(module.parameters(), self.gradient_clip_val)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            self.global_step += 1
            self._call("on_step_end", module, loss.detach())
            if self.global_step >= self.max_steps:
                break

    @torch.no_grad()
    def validate(self, module, loader):
        module.eval()
        losses = [module.validation_step(batch) for batch in loader]
        return torch.stack(losses).mean().item()
