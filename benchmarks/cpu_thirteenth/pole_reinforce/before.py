"""REINFORCE with a learned baseline on a batch of simulated pole-balancing tasks."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

GAMMA = 0.98


class PoleEnv:
    """Cart-pole dynamics for many carts at once (numpy, explicit Euler)."""

    def __init__(self, n_envs, seed):
        self.rng = np.random.default_rng(seed)
        self.n_envs = n_envs

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, (self.n_envs, 4)).astype(np.float32)
        return self.state

    def step(self, action):
        x, v, angle, omega = self.state.T
        force = np.where(action == 1, 10.0, -10.0)
        cos, sin = np.cos(angle), np.sin(angle)
        temp = (force + 0.05 * omega**2 * sin) / 1.1
        alpha = (9.8 * sin - cos * temp) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        accel = temp - 0.05 * alpha * cos / 1.1
        self.state = np.stack(
            [x + 0.02 * v, v + 0.02 * accel, angle + 0.02 * omega, omega + 0.02 * alpha], axis=1
        ).astype(np.float32)
        fallen = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.21)
        self.state[fallen] = self.rng.uniform(-0.05, 0.05, (int(fallen.sum()), 4))
        return self.state, np.where(fallen, -1.0, 0.1).astype(np.float32), fallen


class ActorCritic(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh()
        )
        self.policy = nn.Linear(hidden, 2)
        self.value = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.policy(h), self.value(h).squeeze(-1)


@torch.no_grad()
def collect(env, net, obs, horizon):
    observations, actions, rewards, dones = [], [], [], []
    for _ in range(horizon):
        obs_t = torch.from_numpy(obs)
        logits, _ = net(obs_t)
        action = torch.multinomial(logits.softmax(-1), 1).squeeze(1)
        obs, reward, done = env.step(action.numpy())
        observations.append(obs_t)
        actions.append(action)
        rewards.append(torch.from_numpy(reward))
        dones.append(torch.from_numpy(done))
    return obs, observations, actions, rewards, dones


def discounted(rewards, dones, last_value):
    returns, running = [], last_value
    for reward, done in zip(reversed(rewards), reversed(dones)):
        running = reward + GAMMA * running * (~done)
        returns.append(running)
    return returns[::-1]


def update(net, optimizer, observations, actions, returns):
    policy_loss, value_loss, entropy = 0.0, 0.0, 0.0
    for obs, action, ret in zip(observations, actions, returns):
        logits, value = net(obs)
        log_probs = F.log_softmax(logits, dim=-1)
        chosen = log_probs.gather(1, action.unsqueeze(1)).squeeze(1)
        advantage = ret - value.detach()
        policy_loss = policy_loss - (chosen * advantage).mean()
        value_loss = value_loss + F.mse_loss(value, ret)
        entropy = entropy - (log_probs.exp() * log_probs).sum(-1).mean()

    loss = (policy_loss + 0.5 * value_loss - 0.01 * entropy) / len(observations)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--horizon", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(0)

    env = PoleEnv(n_envs=96, seed=2)
    net = ActorCritic()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    obs = env.reset()
    mean_reward, loss = 0.0, 0.0
    for step in range(args.steps):
        obs, observations, actions, rewards, dones = collect(env, net, obs, args.horizon)
        with torch.no_grad():
            last_value = net(torch.from_numpy(obs))[1]
        returns = discounted(rewards, dones, last_value)
        loss = update(net, optimizer, observations, actions, returns)
        mean_reward = torch.stack(rewards).mean().item()

    print(f"mean reward {mean_reward:.4f}  loss {loss:.4f}")


if __name__ == "__main__":
    main()
