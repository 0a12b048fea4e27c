import torch


class Memory:
    """Fixed ring of transitions, frames kept as bytes."""

    def __init__(self, size, shape, gen):
        self.obs = torch.zeros(size, *shape, dtype=torch.uint8)
        self.nxt = torch.zeros(size, *shape, dtype=torch.uint8)
        self.action = torch.zeros(size, dtype=torch.long)
        self.reward = torch.zeros(size)
        self.done = torch.zeros(size)
        self.size, self.count, self.gen = size, 0, gen

    def add(self, obs, action, reward, nxt, done):
        n = obs.shape[0]
        at = torch.arange(self.count, self.count + n) % self.size
        self.obs[at], self.nxt[at] = obs, nxt
        self.action[at], self.reward[at], self.done[at] = action, reward, done
        self.count += n

    def sample(self, n):
        i = torch.randint(0, min(self.count, self.size), (n,), generator=self.gen)
        return (self.obs[i].float().div_(255), self.action[i], self.reward[i],
                self.nxt[i].float().div_(255), self.done[i])
