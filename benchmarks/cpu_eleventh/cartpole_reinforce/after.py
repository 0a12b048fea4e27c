"""REINFORCE on a vectorised cart-pole written in NumPy."""
import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical

GAMMA = 0.99
N_ENVS = 32
HORIZON = 160


class CartPoleVec:
    """Classic cart-pole equations for a batch of carts; a fallen cart stays down until reset."""

    def __init__(self, n, seed=0):
        self.n = n
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, size=(self.n, 4)).astype(np.float32)
        self.alive = np.ones(self.n, dtype=bool)
        return self.state

    def step(self, action):
        x, x_dot, th, th_dot = self.state.T
        force = np.where(action == 1, 10.0, -10.0).astype(np.float32)
        cos, sin = np.cos(th), np.sin(th)
        temp = (force + 0.05 * th_dot ** 2 * sin) / 1.1
        th_acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos ** 2 / 1.1))
        x_acc = temp - 0.05 * th_acc * cos / 1.1
        new = np.stack(
            [x + 0.02 * x_dot, x_dot + 0.02 * x_acc, th + 0.02 * th_dot, th_dot + 0.02 * th_acc], 1
        )
        self.state = np.where(self.alive[:, None], new, self.state).astype(np.float32)
        reward = self.alive.astype(np.float32)
        fallen = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.3)
        self.alive &= ~fallen
        return self.state, reward


class Policy(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 2)
        )

    def forward(self, obs):
        return self.net(obs)


@torch.no_grad()
def rollout(env, policy):
    """Plays every cart for HORIZON ticks; returns arrays of shape (HORIZON, N_ENVS, ...)."""
    obs = env.reset()
    observations, actions, rewards = [], [], []
    for _ in range(HORIZON):
        observations.append(obs)
        probs = policy(torch.from_numpy(obs)).softmax(dim=1)
        action = torch.multinomial(probs, 1).squeeze(1).numpy()
        obs, reward = env.step(action)
        actions.append(action)
        rewards.append(reward)
    return np.stack(observations), np.stack(actions), np.stack(rewards)


def discounted_returns(rewards):
    returns = np.zeros_like(rewards)
    running = np.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards))):
        running = rewards[t] + GAMMA * running
        returns[t] = running
    return returns


def update(policy, optimizer, observations, actions, rewards):
    returns = torch.from_numpy(discounted_returns(rewards))
    mask = torch.from_numpy(rewards)
    advantage = (returns - returns.mean()) / (returns.std() + 1e-6)

    logits = policy(torch.from_numpy(observations))
    dist = Categorical(logits=logits)
    log_prob = dist.log_prob(torch.from_numpy(actions))
    loss = -(log_prob * advantage * mask).sum() / mask.sum()
    loss = loss - 0.01 * (dist.entropy() * mask).sum() / mask.sum()

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return rewards.sum(axis=0).mean()


def train(env, policy, steps):
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3, fused=True)
    lengths = []
    for _ in range(steps):
        batch = rollout(env, policy)
        lengths.append(update(policy, optimizer, *batch))
    return lengths


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    env = CartPoleVec(N_ENVS, seed=1)
    policy = Policy()
    lengths = train(env, policy, args.steps)
    print(f"mean episode length over {len(lengths)} updates: {np.mean(lengths):.2f}")


if __name__ == "__main__":
    main()
