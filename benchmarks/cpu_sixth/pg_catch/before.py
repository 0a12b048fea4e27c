"""Policy gradient (REINFORCE with a value baseline) on a small Catch game."""
import argparse
import logging
import os
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical


class CatchEnv:
    """A ball falls; move the paddle under it. Observations are stacked frames."""

    def __init__(self, seed, size=36, stack=4):
        self.rng = np.random.default_rng(seed)
        self.size = size
        self.frames = np.zeros((stack, size, size), dtype=np.float32)
        self.reset()

    def reset(self):
        self.ball = [0, int(self.rng.integers(2, self.size - 2))]
        self.paddle = self.size // 2
        self.frames[:] = 0.0
        return self._observe()

    def _observe(self):
        self.frames[:-1] = self.frames[1:]
        frame = self.frames[-1]
        frame[:] = 0.0
        r, c = self.ball
        frame[r:r + 2, c - 1:c + 2] = 1.0
        frame[-2:, self.paddle - 2:self.paddle + 3] = 0.5
        return self.frames.copy()

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + 2 * (action - 1), 2, self.size - 3))
        self.ball[0] += 2
        if self.ball[0] >= self.size - 2:
            reward = 1.0 if abs(self.ball[1] - self.paddle) <= 2 else -1.0
            return self.reset(), reward, True
        return self._observe(), 0.0, False


class ActorCritic(nn.Module):
    def __init__(self, stack=4, actions=3):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(stack, 8, 6, stride=3), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * 5 * 5, 64), nn.ReLU(),
        )
        self.policy = nn.Linear(64, actions)
        self.value = nn.Linear(64, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.policy(h), self.value(h).squeeze(-1)


class Trainer:
    """Collects `horizon` steps of every environment, then does one update."""

    def __init__(self, num_envs=8, horizon=16, gamma=0.99, lr=1e-3, entropy=0.01):
        self.envs = [CatchEnv(100 + i) for i in range(num_envs)]
        self.obs = [env.reset() for env in self.envs]
        self.horizon = horizon
        self.gamma = gamma
        self.entropy = entropy
        self.model = ActorCritic()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.log = logging.getLogger("trainer")

    @staticmethod
    def to_tensor(observations):
        return torch.tensor(observations, dtype=torch.float32)

    @torch.no_grad()
    def act(self):
        logits, _ = self.model(self.to_tensor(self.obs))
        return Categorical(logits=logits).sample().tolist()

    def collect(self):
        observations, actions = [], []
        rewards = np.zeros((self.horizon, len(self.envs)), dtype=np.float32)
        dones = np.zeros_like(rewards)
        for t in range(self.horizon):
            chosen = self.act()
            observations.extend(self.obs)
            actions.extend(chosen)
            for i, env in enumerate(self.envs):
                self.obs[i], rewards[t, i], dones[t, i] = env.step(chosen[i])
        return observations, actions, rewards, dones

    def returns(self, rewards, dones):
        with torch.no_grad():
            _, bootstrap = self.model(self.to_tensor(self.obs))
        running = bootstrap.numpy()
        out = np.zeros_like(rewards)
        for t in range(len(rewards) - 1, -1, -1):
            running = rewards[t] + self.gamma * running * (1.0 - dones[t])
            out[t] = running
        return torch.from_numpy(out).flatten()

    def update(self):
        observations, actions, rewards, dones = self.collect()
        target = self.returns(rewards, dones)
        logits, values = self.model(self.to_tensor(observations))
        dist = Categorical(logits=logits)
        advantage = (target - values).detach()
        policy_loss = -(dist.log_prob(torch.tensor(actions)) * advantage).mean()
        value_loss = F.mse_loss(values, target)
        loss = policy_loss + 0.5 * value_loss - self.entropy * dist.entropy().mean()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()
        return loss.item(), float(rewards.sum() / max(dones.sum(), 1.0))

    def fit(self, updates):
        seconds = []
        for n in range(1, updates + 1):
            start = time.perf_counter()
            loss, score = self.update()
            seconds.append(time.perf_counter() - start)
            if n % 20 == 0:
                self.log.info("update %d loss %.6f episode score %.2f", n, loss, score)
        print(f"final loss {loss:.6f} score {score:.3f}")
        return seconds


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--num-envs", type=int, default=8)
    ap.add_argument("--horizon", type=int, default=16)
    ap.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 80)))
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    torch.manual_seed(args.seed)
    trainer = Trainer(args.num_envs, args.horizon)
    seconds = trainer.fit(args.steps)
    print(f"step {statistics.median(seconds[5:]) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
