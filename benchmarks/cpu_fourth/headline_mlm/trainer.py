import time

import torch


class Trainer:
    def __init__(self, model, data, batch_size, lr, warmup, log_every=20):
        self.model, self.data, self.batch_size = model, data, batch_size
        decay = [p for p in model.parameters() if p.dim() > 1]
        plain = [p for p in model.parameters() if p.dim() <= 1]
        self.opt = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], lr=lr, fused=True)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda s: min(1.0, (s + 1) / warmup))
        self.log_every = log_every
        self.times = []

    def train_step(self):
        inputs, labels = self.data.batch(self.batch_size)
        loss = self.model(inputs, labels)
        self.opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.sched.step()
        return loss.detach()

    def fit(self, steps):
        self.model.train()
        loss = None
        for step in range(steps):
            t0 = time.perf_counter()
            loss = self.train_step()
            self.times.append(time.perf_counter() - t0)
            if step % self.log_every == 0:
                print(f"step {step} loss {loss.item():.4f}")
        return loss.item()

    def mean_step_ms(self):
        kept = self.times[5:] or self.times
        return 1000 * sum(kept) / len(kept)
