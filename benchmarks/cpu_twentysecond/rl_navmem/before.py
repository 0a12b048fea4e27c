"""Advantage actor-critic with a recurrent policy on a vectorised memory task.

The agent sees a cue on the first tick only, then drifts along a corridor whose observations
are noise, and is paid for actions that agree with the cue shifted by the corridor's markers.
"""
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(31)

ENVS = 16
HORIZON = 32
OBS = 20
ACTIONS = 4
HIDDEN = 160
GAMMA = 0.97
LAMBDA = 0.95
UPDATES = 80
WARMUP = 4


class CueCorridor:
    """All environments step together; an episode lasts HORIZON ticks."""

    def __init__(self, count, seed):
        self.count = count
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.tick = 0
        self.cue = self.rng.integers(0, ACTIONS, self.count)
        return self._observe(show_cue=True)

    def _observe(self, show_cue=False):
        obs = self.rng.normal(0, 0.3, (self.count, OBS)).astype(np.float32)
        self.marker = self.rng.integers(0, 2, self.count)
        obs[:, ACTIONS] = self.marker
        obs[:, ACTIONS + 1] = self.tick / HORIZON
        obs[:, :ACTIONS] = 0.0
        if show_cue:
            obs[np.arange(self.count), self.cue] = 1.0
        return torch.from_numpy(obs)

    def step(self, action):
        wanted = (self.cue + self.marker) % ACTIONS
        reward = (action.numpy() == wanted).astype(np.float32) - 0.25
        self.tick += 1
        return self._observe(), torch.from_numpy(reward)


class RecurrentPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(OBS, HIDDEN), nn.Tanh())
        self.memory = nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.actor = nn.Linear(HIDDEN, ACTIONS)
        self.critic = nn.Linear(HIDDEN, 1)

    def forward(self, obs, state=None):
        """obs: (env, time, feature)."""
        h, state = self.memory(self.encode(obs), state)
        return self.actor(h), self.critic(h).squeeze(-1), state


@torch.no_grad()
def collect(env, policy):
    """Play one episode in every environment."""
    observations, actions, rewards, values = [], [], [], []
    obs = env.reset()
    for _ in range(HORIZON):
        observations.append(obs)
        logits, value, _ = policy(torch.stack(observations, dim=1))
        action = torch.multinomial(logits[:, -1].softmax(-1), 1).squeeze(1)
        obs, reward = env.step(action)
        actions.append(action)
        rewards.append(reward)
        values.append(value[:, -1])
    return (torch.stack(observations, 1), torch.stack(actions, 1),
            torch.stack(rewards, 1), torch.stack(values, 1))


def gae(rewards, values):
    advantage = torch.zeros_like(rewards)
    running = torch.zeros(ENVS)
    following = torch.zeros(ENVS)
    for t in reversed(range(HORIZON)):
        delta = rewards[:, t] + GAMMA * following - values[:, t]
        running = delta + GAMMA * LAMBDA * running
        advantage[:, t] = running
        following = values[:, t]
    return advantage


def learn(policy, optimizer, obs, actions, advantage, returns):
    logits, value, _ = policy(obs)
    logp = F.log_softmax(logits, -1)
    chosen = logp.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    normed = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    entropy = -(logp.exp() * logp).sum(-1).mean()
    loss = -(chosen * normed).mean() + 0.5 * F.mse_loss(value, returns) - 0.01 * entropy
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    optimizer.step()
    return loss.item()


def main():
    env = CueCorridor(ENVS, seed=9)
    policy = RecurrentPolicy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)
    times, reward_log = [], []
    for update in range(UPDATES):
        start = time.perf_counter()
        obs, actions, rewards, values = collect(env, policy)
        advantage = gae(rewards, values)
        loss = learn(policy, optimizer, obs, actions, advantage, advantage + values)
        times.append(time.perf_counter() - start)
        reward_log.append(rewards.sum(1).mean().item())
        if update % 20 == 0:
            print(f"update {update:3d}  loss {loss:.4f}  episode reward {reward_log[-1]:.2f}")
    mean = sum(times[WARMUP:]) / len(times[WARMUP:])
    print(f"final loss {loss:.5f}  reward {sum(reward_log[-10:]) / 10:.3f}")
    print(f"mean step time {mean * 1000:.2f} ms")


if __name__ == "__main__":
    main()
