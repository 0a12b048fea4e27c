"""Double dueling DQN with prioritized replay on a vectorised pursuit grid world.

One iteration = 4 environment steps in each of the parallel worlds, then 4 gradient updates.
"""
import argparse
import time
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PursuitVecEnv:
    """An agent chases a wandering target on a board with walls; observation is the 3-plane local view."""
    MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0], [0, 0]])

    def __init__(self, n, size=16, view=4, seed=0):
        self.n, self.size, self.view = n, size, view
        self.rng = np.random.default_rng(seed)
        self.walls = self.rng.random((size, size)) < 0.12
        self.pad = np.pad(self.walls, view, constant_values=True)
        self.agent = self._free(n)
        self.target = self._free(n)
        self.t = np.zeros(n, dtype=int)
        self.obs_dim = 2 * (2 * view + 1) ** 2 + 4

    def _free(self, n):
        cells = np.argwhere(~self.walls)
        return cells[self.rng.integers(len(cells), size=n)]

    def _move(self, pos, delta):
        new = np.clip(pos + delta, 0, self.size - 1)
        blocked = self.walls[new[:, 0], new[:, 1]]
        return np.where(blocked[:, None], pos, new)

    def observe(self):
        w = 2 * self.view + 1
        r = np.arange(w)
        rows = self.agent[:, 0, None, None] + r[None, :, None]
        cols = self.agent[:, 1, None, None] + r[None, None, :]
        local = self.pad[rows, cols].astype(np.float32)
        rel = self.target - self.agent
        seen = np.zeros((self.n, w, w), dtype=np.float32)
        inside = (np.abs(rel) <= self.view).all(1)
        idx = np.nonzero(inside)[0]
        seen[idx, rel[idx, 0] + self.view, rel[idx, 1] + self.view] = 1
        extra = np.concatenate([rel / self.size, self.agent / self.size], 1).astype(np.float32)
        return np.concatenate([local.reshape(self.n, -1), seen.reshape(self.n, -1), extra], 1)

    def step(self, action):
        before = np.abs(self.agent - self.target).sum(1)
        self.agent = self._move(self.agent, self.MOVES[action])
        self.target = self._move(self.target, self.MOVES[self.rng.integers(5, size=self.n)])
        after = np.abs(self.agent - self.target).sum(1)
        caught = after == 0
        reward = (0.1 * (before - after) + 5.0 * caught - 0.02).astype(np.float32)
        self.t += 1
        done = caught | (self.t >= 100)
        if done.any():
            k = int(done.sum())
            self.agent[done], self.target[done] = self._free(k), self._free(k)
            self.t[done] = 0
        return self.observe(), reward, done


class SumTree:
    """Binary tree of sums over the leaves; look-ups and changes take one pass per level for a whole batch."""

    def __init__(self, capacity):
        self.depth = int(np.ceil(np.log2(capacity)))
        self.first = 2 ** self.depth
        self.node = np.zeros(2 * self.first)

    def set(self, idx, value):
        i = idx + self.first
        self.node[i] = value
        for _ in range(self.depth):
            i = i >> 1
            self.node[i] = self.node[2 * i] + self.node[2 * i + 1]

    def find(self, mass):
        i = np.ones(len(mass), dtype=np.int64)
        for _ in range(self.depth):
            left = self.node[2 * i]
            right = mass >= left
            mass = mass - left * right
            i = 2 * i + right
        return i - self.first

    def __getitem__(self, idx):
        return self.node[idx + self.first]

    @property
    def total(self):
        return self.node[1]


class PrioritizedReplay:
    def __init__(self, capacity, obs_dim, alpha=0.6, seed=0):
        self.capacity, self.alpha = capacity, alpha
        self.obs = np.zeros((capacity, obs_dim), dtype=np.float16)
        self.next_obs = np.zeros((capacity, obs_dim), dtype=np.float16)
        self.action = np.zeros(capacity, dtype=np.int64)
        self.reward = np.zeros(capacity, dtype=np.float32)
        self.done = np.zeros(capacity, dtype=np.float32)
        self.tree = SumTree(capacity)
        self.max_priority = 1.0
        self.pos, self.size = 0, 0
        self.rng = np.random.default_rng(seed)

    def add(self, obs, action, reward, next_obs, done):
        idx = (self.pos + np.arange(len(obs))) % self.capacity
        self.obs[idx], self.next_obs[idx] = obs, next_obs
        self.action[idx], self.reward[idx], self.done[idx] = action, reward, done
        self.tree.set(idx, self.max_priority ** self.alpha)
        self.pos = int((self.pos + len(obs)) % self.capacity)
        self.size = min(self.size + len(obs), self.capacity)

    def sample(self, batch, beta):
        idx = np.minimum(self.tree.find(self.rng.random(batch) * self.tree.total), self.size - 1)
        p = self.tree[idx] / self.tree.total
        weights = (self.size * p) ** (-beta)
        weights = (weights / weights.max()).astype(np.float32)
        f = torch.from_numpy
        return SimpleNamespace(idx=idx, weights=f(weights), obs=f(self.obs[idx].astype(np.float32)),
                               next_obs=f(self.next_obs[idx].astype(np.float32)), action=f(self.action[idx]),
                               reward=f(self.reward[idx]), done=f(self.done[idx]))

    def update(self, idx, td_error):
        prio = np.abs(td_error) + 1e-3
        self.tree.set(idx, prio ** self.alpha)
        self.max_priority = max(self.max_priority, float(prio.max()))


class DuelingNet(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=192):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, n_actions)

    def forward(self, x):
        h = self.body(x)
        adv = self.adv(h)
        return self.value(h) + adv - adv.mean(1, keepdim=True)


class Agent:
    def __init__(self, obs_dim, n_actions, lr, gamma):
        self.online, self.target = DuelingNet(obs_dim, n_actions), DuelingNet(obs_dim, n_actions)
        self.target.load_state_dict(self.online.state_dict())
        self.target.requires_grad_(False)
        self.opt = torch.optim.Adam(self.online.parameters(), lr=lr, fused=True)
        self.gamma, self.n_actions = gamma, n_actions

    @torch.no_grad()
    def act(self, obs, eps, rng):
        greedy = self.online(torch.from_numpy(obs)).argmax(1).numpy()
        explore = rng.random(len(obs)) < eps
        return np.where(explore, rng.integers(self.n_actions, size=len(obs)), greedy)

    def learn(self, b):
        with torch.no_grad():
            best = self.online(b.next_obs).argmax(1, keepdim=True)
            nxt = self.target(b.next_obs).gather(1, best).squeeze(1)
            goal = b.reward + self.gamma * (1 - b.done) * nxt
        q = self.online(b.obs).gather(1, b.action[:, None]).squeeze(1)
        loss = (b.weights * F.smooth_l1_loss(q, goal, reduction="none")).mean()
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.opt.step()
        return loss.item(), (goal - q.detach()).numpy()

    @torch.no_grad()
    def soft_update(self, tau=0.005):
        torch._foreach_lerp_(list(self.target.parameters()), list(self.online.parameters()), tau)


def prefill(env, memory, obs, frames):
    rng = np.random.default_rng(9)
    for _ in range(frames // env.n):
        action = rng.integers(5, size=env.n)
        nxt, reward, done = env.step(action)
        memory.add(obs, action, reward, nxt, done)
        obs = nxt
    return obs


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=60)
    ap.add_argument("--envs", type=int, default=64)
    ap.add_argument("--capacity", type=int, default=200_000)
    ap.add_argument("--warmup", type=int, default=160_000)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--updates", type=int, default=4)
    ap.add_argument("--lr", type=float, default=5e-4)
    args = ap.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(1)

    env = PursuitVecEnv(args.envs)
    memory = PrioritizedReplay(args.capacity, env.obs_dim)
    agent = Agent(env.obs_dim, 5, args.lr, 0.98)
    obs = prefill(env, memory, env.observe(), args.warmup)

    returns, t0 = [], time.time()
    for it in range(1, args.iters + 1):
        eps = max(0.05, 0.5 * (1 - it / args.iters))
        beta = min(1.0, 0.4 + 0.6 * it / args.iters)
        for _ in range(4):
            action = agent.act(obs, eps, rng)
            nxt, reward, done = env.step(action)
            memory.add(obs, action, reward, nxt, done)
            returns.append(reward.mean())
            obs = nxt
        for _ in range(args.updates):
            batch = memory.sample(args.batch, beta)
            loss, td = agent.learn(batch)
            memory.update(batch.idx, td)
            agent.soft_update()
        if it % 20 == 0:
            print(f"iter {it:4d} loss {loss:.4f} reward/step {np.mean(returns[-40:]):+.4f} eps {eps:.2f} "
                  f"{(time.time() - t0) / it * 1e3:.0f} ms/iter", flush=True)


if __name__ == "__main__":
    main()
