"""Advantage actor-critic with generalised advantage estimation on a batch of gridworlds."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ENVS = 16
HORIZON = 32
GRID = 9
ACTIONS = 4
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])


class VecGridWorld:
    """ENVS independent grids; walk to the goal, +1 on arrival, small cost per move."""

    def __init__(self, num_envs, seed):
        self.rng = np.random.default_rng(seed)
        self.num_envs = num_envs
        self.pos = np.zeros((num_envs, 2), dtype=np.int64)
        self.goal = np.zeros((num_envs, 2), dtype=np.int64)
        self.age = np.zeros(num_envs, dtype=np.int64)
        self.reset_where(np.ones(num_envs, dtype=bool))

    def reset_where(self, mask):
        n = int(mask.sum())
        self.pos[mask] = self.rng.integers(0, GRID, (n, 2))
        self.goal[mask] = self.rng.integers(0, GRID, (n, 2))
        self.age[mask] = 0

    def observe(self):
        obs = np.zeros((self.num_envs, 2, GRID, GRID), dtype=np.float32)
        i = np.arange(self.num_envs)
        obs[i, 0, self.pos[:, 0], self.pos[:, 1]] = 1.0
        obs[i, 1, self.goal[:, 0], self.goal[:, 1]] = 1.0
        return torch.from_numpy(obs)

    def step(self, actions):
        self.pos = np.clip(self.pos + MOVES[actions], 0, GRID - 1)
        self.age += 1
        arrived = (self.pos == self.goal).all(1)
        done = arrived | (self.age >= 40)
        reward = np.where(arrived, 1.0, -0.02).astype(np.float32)
        self.reset_where(done)
        return self.observe(), torch.from_numpy(reward), torch.from_numpy(done.astype(np.float32))


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(16 * GRID * GRID, 64), nn.ReLU(),
        )
        self.policy = nn.Linear(64, ACTIONS)
        self.value = nn.Linear(64, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.policy(h), self.value(h).squeeze(-1)


@torch.no_grad()
def collect(env, obs, model):
    """Roll the policy out for HORIZON moves in every environment."""
    all_obs = torch.zeros(HORIZON, ENVS, 2, GRID, GRID)
    actions = torch.zeros(HORIZON, ENVS, dtype=torch.long)
    rewards, dones, values = (torch.zeros(HORIZON, ENVS) for _ in range(3))
    for t in range(HORIZON):
        logits, value = model(obs)
        action = torch.multinomial(logits.softmax(-1), 1).squeeze(1)
        all_obs[t], actions[t], values[t] = obs, action, value
        obs, rewards[t], dones[t] = env.step(action.numpy())
    _, last_value = model(obs)
    return obs, (all_obs, actions, rewards, dones, values, last_value)


def compute_gae(rewards, dones, values, last_value, gamma=0.98, lam=0.95):
    """Advantages and returns, Schulman et al. 2016."""
    advantages = torch.zeros_like(rewards)
    for e in range(rewards.shape[1]):
        gae = 0.0
        next_value = last_value[e]
        for t in reversed(range(rewards.shape[0])):
            alive = 1.0 - dones[t, e]
            delta = rewards[t, e] + gamma * next_value * alive - values[t, e]
            gae = delta + gamma * lam * alive * gae
            advantages[t, e] = gae
            next_value = values[t, e]
    return advantages, advantages + values


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)

    env = VecGridWorld(ENVS, seed=0)
    obs = env.observe()
    model = ActorCritic()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=7e-4, eps=1e-5)

    mean_reward = 0.0
    for update in range(args.steps):
        obs, batch = collect(env, obs, model)
        all_obs, actions, rewards, dones, values, last_value = batch
        advantages, returns = compute_gae(rewards, dones, values, last_value)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)

        logits, value = model(all_obs.flatten(0, 1))
        log_probs = F.log_softmax(logits, dim=-1)
        chosen = log_probs.gather(1, actions.view(-1, 1)).squeeze(1)
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        policy_loss = -(advantages.view(-1) * chosen).mean()
        value_loss = F.mse_loss(value, returns.view(-1))
        loss = policy_loss + 0.5 * value_loss - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        mean_reward += rewards.mean().item()
    print(f"mean reward {mean_reward / args.steps:.4f}, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
