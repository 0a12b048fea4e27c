"""Off-policy actor-critic on a vectorised point-mass task with a replay memory."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class PointMass:
    """Many independent point masses that must reach their own goals."""

    def __init__(self, envs, gen):
        self.envs, self.gen = envs, gen
        self.pos, self.vel = torch.zeros(envs, 4), torch.zeros(envs, 4)
        self.goal = torch.randn(envs, 4, generator=gen)
        self.age = torch.randint(100, (envs,), generator=gen)

    def observe(self):
        return torch.cat([self.pos, self.vel, self.goal, self.goal - self.pos], 1)

    def step(self, action):
        self.vel = 0.9 * self.vel + 0.1 * action
        self.pos = self.pos + 0.1 * self.vel
        reward = -(self.goal - self.pos).norm(dim=1)
        self.age += 1
        done = self.age >= 100
        fresh = torch.randn(self.envs, 4, generator=self.gen)
        self.goal = torch.where(done.unsqueeze(1), fresh, self.goal)
        self.age[done] = 0
        return self.observe(), reward, done.float()


class ReplayMemory:
    """The most recent `capacity` transitions, one row each."""

    def __init__(self, capacity, obs_dim, act_dim):
        self.sizes = [obs_dim, act_dim, 1, obs_dim, 1]
        self.rows = torch.zeros(capacity, sum(self.sizes))
        self.filled = 0
        self.next = 0

    def push(self, obs, act, rew, nxt, done):
        new = torch.cat([obs, act, rew.unsqueeze(1), nxt, done.unsqueeze(1)], 1)
        slots = (self.next + torch.arange(len(new))) % len(self.rows)
        self.rows[slots] = new
        self.next = (self.next + len(new)) % len(self.rows)
        self.filled = min(self.filled + len(new), len(self.rows))

    def sample(self, count, gen):
        pick = (self.next - 1 - torch.randint(self.filled, (count,), generator=gen)) % len(self.rows)
        return self.rows[pick].split(self.sizes, dim=1)


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Agent:
    def __init__(self, obs_dim, act_dim, hidden=160, gamma=0.95):
        self.actor = mlp(obs_dim, hidden, hidden, act_dim)
        self.critic = mlp(obs_dim + act_dim, hidden, hidden, 1)
        self.gamma = gamma
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    @torch.no_grad()
    def act(self, obs, gen):
        mean = self.actor(obs).tanh()
        return (mean + 0.2 * torch.randn(mean.shape, generator=gen)).clamp(-1, 1)

    def learn(self, obs, act, rew, nxt, done):
        with torch.no_grad():
            q_next = self.critic(torch.cat([nxt, self.actor(nxt).tanh()], 1))
            goal = rew + self.gamma * (1 - done) * q_next
        critic_loss = F.smooth_l1_loss(self.critic(torch.cat([obs, act], 1)), goal)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        actor_loss = -self.critic(torch.cat([obs, self.actor(obs).tanh()], 1)).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()
        return critic_loss.item()


class Trainer:
    def __init__(self, args):
        torch.manual_seed(0)
        self.gen = torch.Generator().manual_seed(1)
        self.args = args
        self.env = PointMass(args.envs, self.gen)
        self.memory = ReplayMemory(args.capacity, 16, 4)
        self.agent = Agent(16, 4)
        self.obs = self.env.observe()

    def step(self):
        act = self.agent.act(self.obs, self.gen)
        nxt, rew, done = self.env.step(act)
        self.memory.push(self.obs, act, rew, nxt, done)
        self.obs = nxt
        return self.agent.learn(*self.memory.sample(self.args.batch, self.gen)), rew.mean().item()

    def run(self):
        for step in range(self.args.steps):
            if step == 5:
                began = time.perf_counter()
            loss, reward = self.step()
            if (step + 1) % 20 == 0:
                print(f"step {step + 1}: critic {loss:.4f} reward {reward:.3f}")
        mean = (time.perf_counter() - began) / (self.args.steps - 5)
        print(f"mean step {mean * 1000:.2f} ms")


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--steps", type=int, default=60)
    cli.add_argument("--envs", type=int, default=64)
    cli.add_argument("--batch", type=int, default=1536)
    cli.add_argument("--capacity", type=int, default=300_000)
    Trainer(cli.parse_args()).run()
