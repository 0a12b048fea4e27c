"""PPO on a vectorised pendulum swing-up (numpy environment)."""
import argparse

import numpy as np
import torch
import torch.nn as nn

NUM_ENVS = 8
HORIZON = 24
GAMMA = 0.98
LAMBDA = 0.95
CLIP = 0.2


class VectorPendulum:
    def __init__(self, n, seed=0, episode_len=100):
        self.rng = np.random.default_rng(seed)
        self.n, self.episode_len = n, episode_len
        self.theta, self.omega = np.zeros(n), np.zeros(n)
        self.age = np.zeros(n, dtype=int)
        self._reset(np.ones(n, dtype=bool))
        self.age = self.rng.integers(0, episode_len, n)

    def _reset(self, mask):
        k = int(mask.sum())
        self.theta[mask] = self.rng.uniform(-np.pi, np.pi, k)
        self.omega[mask] = self.rng.uniform(-1, 1, k)
        self.age[mask] = 0

    def observe(self):
        obs = np.stack([np.cos(self.theta), np.sin(self.theta), self.omega / 8], axis=1)
        return torch.from_numpy(obs.astype(np.float32))

    def step(self, action):
        u = np.clip(action.numpy()[:, 0], -2, 2)
        angle = (self.theta + np.pi) % (2 * np.pi) - np.pi
        reward = -(angle ** 2 + 0.1 * self.omega ** 2 + 0.001 * u ** 2)
        self.omega = np.clip(self.omega + 0.05 * (15 * np.sin(self.theta) + 3 * u), -8, 8)
        self.theta = self.theta + 0.05 * self.omega
        self.age += 1
        done = self.age >= self.episode_len
        self._reset(done)
        reward = torch.from_numpy(reward.astype(np.float32))
        return self.observe(), reward, torch.from_numpy(done.astype(np.float32))


class ActorCritic(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.pi = nn.Sequential(
            nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
            nn.Linear(hidden, 1),
        )
        self.v = nn.Sequential(
            nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
            nn.Linear(hidden, 1),
        )
        self.log_std = nn.Parameter(torch.zeros(1))

    def log_prob(self, mean, action):
        z = (action - mean) / self.log_std.exp()
        return (-0.5 * z ** 2 - self.log_std - 0.9189385).sum(-1)


@torch.no_grad()
def collect(env, model, obs):
    keys = ("obs", "act", "logp", "rew", "done", "val")
    store = {k: [] for k in keys}
    for _ in range(HORIZON):
        mean, value = model.pi(obs), model.v(obs).squeeze(-1)
        action = mean + model.log_std.exp() * torch.randn_like(mean)
        next_obs, reward, done = env.step(action)
        step = (obs, action, model.log_prob(mean, action), 0.1 * reward, done, value)
        for k, v in zip(keys, step):
            store[k].append(v)
        obs = next_obs
    batch = {k: torch.stack(v) for k, v in store.items()}
    return batch, obs, model.v(obs).squeeze(-1)


def compute_gae(rewards, values, dones, last_value):
    """Generalised advantage estimation, arrays of shape (HORIZON, NUM_ENVS)."""
    advantages = torch.zeros_like(rewards)
    horizon, num_envs = rewards.shape
    for e in range(num_envs):
        gae = torch.zeros(())
        next_value = last_value[e]
        for t in reversed(range(horizon)):
            alive = 1.0 - dones[t, e]
            delta = rewards[t, e] + GAMMA * next_value * alive - values[t, e]
            gae = delta + GAMMA * LAMBDA * alive * gae
            advantages[t, e] = gae
            next_value = values[t, e]
    return advantages, advantages + values


def update(model, opt, batch, adv, ret, epochs=2, minibatches=2):
    obs, act, logp = (batch[k].flatten(0, 1) for k in ("obs", "act", "logp"))
    adv, ret = adv.flatten(), ret.flatten()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(epochs):
        for idx in torch.randperm(len(adv)).chunk(minibatches):
            ratio = (model.log_prob(model.pi(obs[idx]), act[idx]) - logp[idx]).exp()
            a = adv[idx]
            policy_loss = -torch.min(ratio * a, ratio.clamp(1 - CLIP, 1 + CLIP) * a).mean()
            value_loss = (model.v(obs[idx]).squeeze(-1) - ret[idx]).pow(2).mean()
            loss = policy_loss + 0.5 * value_loss - 0.001 * model.log_std.sum()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
    return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    env, model = VectorPendulum(NUM_ENVS), ActorCritic()
    opt = torch.optim.Adam(model.parameters(), lr=3e-4)
    obs = env.observe()
    for _ in range(args.steps):
        batch, obs, last_value = collect(env, model, obs)
        adv, ret = compute_gae(batch["rew"], batch["val"], batch["done"], last_value)
        loss = update(model, opt, batch, adv, ret)
    print(f"iterations {args.steps} reward {batch['rew'].mean().item():.4f} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
