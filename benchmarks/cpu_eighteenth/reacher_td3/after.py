"""TD3 on a planar reaching task, warm-started from a large offline buffer.

    python reacher.py --iterations 50
"""
import argparse
import copy
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PlanarReacher:
    """N-joint arm with velocity control; reward is minus the distance to the goal."""

    def __init__(self, joints=6, horizon=50, seed=0):
        self.joints, self.horizon = joints, horizon
        self.rng = np.random.default_rng(seed)
        self.obs_dim, self.act_dim = 3 * joints + 4, joints

    def _tip(self):
        a = np.cumsum(self.q)
        return np.array([np.cos(a).sum(), np.sin(a).sum()]) / self.joints

    def _obs(self):
        return np.concatenate([np.cos(self.q), np.sin(self.q), self.v, self.goal, self.goal - self._tip()]).astype(np.float32)

    def reset(self):
        self.t = 0
        self.q = self.rng.uniform(-1, 1, self.joints)
        self.v = np.zeros(self.joints)
        self.goal = self.rng.uniform(-0.7, 0.7, 2)
        return self._obs()

    def step(self, action):
        self.v = 0.8 * self.v + 0.2 * action
        self.q = self.q + 0.15 * self.v
        self.t += 1
        reward = -np.linalg.norm(self.goal - self._tip()) - 0.01 * np.square(action).sum()
        return self._obs(), float(reward), self.t >= self.horizon


class ReplayBuffer:
    def __init__(self, obs_dim, act_dim, capacity):
        self.capacity = capacity
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.act = np.zeros((capacity, act_dim), np.float32)
        self.rew = np.zeros((capacity, 1), np.float32)
        self.done = np.zeros((capacity, 1), np.float32)
        self.ptr, self.size = 0, 0

    def add(self, obs, act, rew, next_obs, done):
        i = self.ptr
        self.obs[i], self.act[i], self.rew[i], self.next_obs[i], self.done[i] = obs, act, rew, next_obs, done
        self.ptr = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def load_offline(self, n, rng):
        """Stand-in for reading the logged transitions of earlier runs."""
        self.obs[:n] = rng.standard_normal((n, self.obs.shape[1]))
        self.act[:n] = rng.uniform(-1, 1, (n, self.act.shape[1]))
        self.next_obs[:n] = self.obs[:n]
        self.next_obs[:n, : self.act.shape[1]] += 0.1 * self.act[:n]
        self.rew[:n, 0] = -np.abs(self.next_obs[:n, -2:]).sum(1)
        self.size = self.ptr = n

    def sample(self, batch_size, rng):
        idx = rng.randint(0, self.size, size=batch_size)
        return [torch.from_numpy(a[idx]) for a in (self.obs, self.act, self.rew, self.next_obs, self.done)]


def mlp(sizes, out=nn.Identity):
    layers = []
    for i in range(len(sizes) - 1):
        layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU() if i < len(sizes) - 2 else out()]
    return nn.Sequential(*layers)


class Critic(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.q1 = mlp([obs_dim + act_dim, hidden, hidden, 1])
        self.q2 = mlp([obs_dim + act_dim, hidden, hidden, 1])

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=1)
        return self.q1(x), self.q2(x)


class TD3:
    def __init__(self, obs_dim, act_dim, hidden=256, lr=3e-4, gamma=0.98, tau=0.005, policy_delay=2):
        self.actor = mlp([obs_dim, hidden, hidden, act_dim], nn.Tanh)
        self.critic = Critic(obs_dim, act_dim, hidden)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=lr)
        self.gamma, self.tau, self.policy_delay = gamma, tau, policy_delay
        self.updates = 0

    @torch.no_grad()
    def act(self, obs, noise, rng):
        a = self.actor(torch.from_numpy(obs)[None])[0].numpy()
        return np.clip(a + noise * rng.standard_normal(a.shape), -1, 1).astype(np.float32)

    @torch.no_grad()
    def _sync(self, net, target):
        torch._foreach_lerp_(list(target.parameters()), list(net.parameters()), self.tau)

    def update(self, obs, act, rew, next_obs, done):
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(act)).clamp(-0.5, 0.5)
            next_act = (self.actor_target(next_obs) + noise).clamp(-1, 1)
            target = rew + self.gamma * (1 - done) * torch.minimum(*self.critic_target(next_obs, next_act))
        q1, q2 = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        self.updates += 1
        if self.updates % self.policy_delay == 0:
            self.critic.requires_grad_(False)
            actor_loss = -self.critic.q1(torch.cat([obs, self.actor(obs)], dim=1)).mean()
            self.actor_opt.zero_grad()
            actor_loss.backward()
            self.actor_opt.step()
            self.critic.requires_grad_(True)
            self._sync(self.actor, self.actor_target)
            self._sync(self.critic, self.critic_target)
        return critic_loss.item()


def evaluate(agent, env, episodes, rng):
    total = 0.0
    for _ in range(episodes):
        obs, done = env.reset(), False
        while not done:
            obs, r, done = env.step(agent.act(obs, 0.0, rng))
            total += r
    return total / episodes


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iterations", type=int, default=50)
    ap.add_argument("--env-steps", type=int, default=25, help="environment steps per iteration")
    ap.add_argument("--updates", type=int, default=8, help="gradient updates per iteration")
    ap.add_argument("--batch-size", type=int, default=256)
    ap.add_argument("--hidden", type=int, default=192)
    ap.add_argument("--offline", type=int, default=600_000)
    ap.add_argument("--capacity", type=int, default=1_000_000)
    ap.add_argument("--eval-every", type=int, default=20)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()

    rng = np.random.RandomState(args.seed)
    torch.manual_seed(args.seed)
    env, eval_env = PlanarReacher(seed=args.seed), PlanarReacher(seed=args.seed + 1)
    agent = TD3(env.obs_dim, env.act_dim, args.hidden)
    buffer = ReplayBuffer(env.obs_dim, env.act_dim, args.capacity)
    buffer.load_offline(args.offline, rng)

    obs, ep_return, returns, clock = env.reset(), 0.0, [], []
    for it in range(1, args.iterations + 1):
        tic = time.perf_counter()
        for _ in range(args.env_steps):
            act = agent.act(obs, 0.1, rng)
            next_obs, rew, done = env.step(act)
            buffer.add(obs, act, rew, next_obs, False)
            ep_return += rew
            obs = next_obs
            if done:
                returns.append(ep_return)
                obs, ep_return = env.reset(), 0.0
        losses = [agent.update(*buffer.sample(args.batch_size, rng)) for _ in range(args.updates)]
        clock.append(time.perf_counter() - tic)
        if it % 10 == 0:
            print(f"iter {it:3d} | buffer {buffer.size} | critic loss {np.mean(losses):.4f} | "
                  f"return {np.mean(returns[-5:]):.2f} | {1e3 * np.mean(clock[-10:]):.0f} ms")
        if it % args.eval_every == 0:
            print(f"  eval return {evaluate(agent, eval_env, 2, rng):.2f}")


if __name__ == "__main__":
    main()
