"""Double dueling DQN that learns to catch falling pixels with a paddle."""
import argparse
import time

import torch

from agent import Agent
from memory import Memory

SIDE, FRAMES, ACTIONS = 42, 3, 3


class CatchEnvs:
    def __init__(self, n, gen):
        self.n, self.gen = n, gen
        self.paddle = torch.full((n,), SIDE // 2)
        self.y = torch.zeros(n, dtype=torch.long)
        self.x = torch.randint(2, SIDE - 2, (n,), generator=gen)
        self.stack = torch.zeros(n, FRAMES, SIDE, SIDE, dtype=torch.uint8)

    def render(self):
        frame = torch.zeros(self.n, SIDE, SIDE, dtype=torch.uint8)
        rows = torch.arange(self.n)
        for d in (-1, 0, 1):
            frame[rows, self.y, (self.x + d).clamp(0, SIDE - 1)] = 255
            frame[rows, SIDE - 1, (self.paddle + 2 * d).clamp(0, SIDE - 1)] = 180
        self.stack = torch.cat([self.stack[:, 1:], frame[:, None]], 1)
        return self.stack

    def step(self, action):
        self.paddle = (self.paddle + 2 * (action - 1)).clamp(2, SIDE - 3)
        self.y = self.y + 2
        done = self.y >= SIDE - 2
        hit = (self.x - self.paddle).abs() <= 3
        reward = torch.where(done, torch.where(hit, 1.0, -1.0), torch.tensor(0.0))
        self.y = torch.where(done, 0, self.y)
        fresh = torch.randint(2, SIDE - 2, (self.n,), generator=self.gen)
        self.x = torch.where(done, fresh, self.x)
        return self.render(), reward, done.float()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--envs", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(9)

    envs = CatchEnvs(args.envs, gen)
    memory = Memory(4000, (FRAMES, SIDE, SIDE), gen)
    agent = Agent(FRAMES, ACTIONS)
    obs = envs.render()
    for _ in range(60):
        action = torch.randint(0, ACTIONS, (args.envs,))
        nxt, reward, done = envs.step(action)
        memory.add(obs, action, reward, nxt, done)
        obs = nxt

    times, loss = [], None
    for step in range(args.steps):
        t0 = time.perf_counter()
        action = agent.act(obs, eps=max(0.05, 1 - step / 500))
        nxt, reward, done = envs.step(action)
        memory.add(obs, action, reward, nxt, done)
        obs = nxt
        loss = agent.update(memory.sample(args.batch_size))
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.5f}")
    print(f"final loss {loss.item():.5f}")
    kept = times[5:] or times
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
