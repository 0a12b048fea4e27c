"""Soft actor-critic on a humanoid-sized continuous control task."""
import argparse
import json
import random
import resource
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

OBS_DIM, ACT_DIM = 376, 17


class WalkerEnv:
    """Damped random dynamics with humanoid observation and action sizes."""

    def __init__(self, seed=0, horizon=500):
        self.rng = np.random.default_rng(seed)
        self.drive = self.rng.normal(0, 0.2, (OBS_DIM, ACT_DIM))
        self.goal = self.rng.normal(0, 1, OBS_DIM) / OBS_DIM
        self.horizon, self.t = horizon, 0
        self.state = self.rng.normal(0, 1, OBS_DIM)

    def step(self, action):
        self.t += 1
        noise = self.rng.normal(0, 0.05, OBS_DIM)
        self.state = 0.95 * self.state + self.drive @ action + noise
        reward = float(self.goal @ self.state) - 0.01 * float(action @ action)
        return self.state, reward, self.t % self.horizon == 0


class ReplayBuffer:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, state, action, reward, next_state, done):
        self.memory.append((state, action, reward, next_state, done))

    def sample(self, batch_size, device):
        batch = random.sample(self.memory, batch_size)
        states, actions, rewards, next_states, dones = zip(*batch)
        states = torch.FloatTensor(states).to(device)
        actions = torch.FloatTensor(actions).to(device)
        rewards = torch.FloatTensor(rewards).unsqueeze(1).to(device)
        next_states = torch.FloatTensor(next_states).to(device)
        dones = torch.FloatTensor(dones).unsqueeze(1).to(device)
        return states, actions, rewards, next_states, dones


def mlp(n_in, hidden, n_out):
    return nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden),
                         nn.ReLU(), nn.Linear(hidden, n_out))


class Actor(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.net = mlp(OBS_DIM, hidden, 2 * ACT_DIM)

    def forward(self, obs):
        mean, log_std = self.net(obs).chunk(2, dim=-1)
        log_std = log_std.clamp(-5, 2)
        eps = torch.randn_like(mean)
        action = torch.tanh(mean + log_std.exp() * eps)
        logp = -0.5 * eps.pow(2) - log_std - 0.919 - torch.log(1 - action.pow(2) + 1e-6)
        return action, logp.sum(-1, keepdim=True)


class Critic(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.q1 = mlp(OBS_DIM + ACT_DIM, hidden, 1)
        self.q2 = mlp(OBS_DIM + ACT_DIM, hidden, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x), self.q2(x)


class SAC:
    def __init__(self, hidden, device, gamma=0.99, tau=0.005, alpha=0.05):
        self.actor = Actor(hidden).to(device)
        self.critic = Critic(hidden).to(device)
        self.target = Critic(hidden).to(device)
        self.target.load_state_dict(self.critic.state_dict())
        opts = dict(lr=3e-4, fused=device.type == "cuda")
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), **opts)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), **opts)
        self.gamma, self.tau, self.alpha, self.device = gamma, tau, alpha, device

    @torch.no_grad()
    def act(self, obs):
        obs = torch.as_tensor(obs, dtype=torch.float32).to(self.device)
        return self.actor(obs)[0].cpu().numpy()

    def update(self, buffer, batch_size):
        obs, act, rew, next_obs, done = buffer.sample(batch_size, self.device)
        with torch.no_grad():
            next_act, next_logp = self.actor(next_obs)
            next_q = torch.min(*self.target(next_obs, next_act)) - self.alpha * next_logp
            backup = rew + self.gamma * (1 - done) * next_q
        q1, q2 = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, backup) + F.mse_loss(q2, backup)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        new_act, logp = self.actor(obs)
        actor_loss = (self.alpha * logp - torch.min(*self.critic(obs, new_act))).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.target.parameters()),
                                 list(self.critic.parameters()), self.tau)
        return critic_loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sync = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    hidden, batch_size, prefill = (64, 32, 500) if args.small else (512, 512, 20000)

    env, agent, buffer = WalkerEnv(), SAC(hidden, device), ReplayBuffer(100_000)
    obs, losses = env.state, []
    for step in range(-prefill - 10, args.steps):
        if step == 0:
            sync()
            start = time.perf_counter()
        explore = step < -10
        action = env.rng.uniform(-1, 1, ACT_DIM) if explore else agent.act(obs)
        next_obs, reward, done = env.step(action)
        buffer.push(obs, action, reward, next_obs, done)
        obs = next_obs
        if not explore:
            losses.append(agent.update(buffer, batch_size))
    sync()
    elapsed = time.perf_counter() - start

    losses = torch.stack(losses).cpu()
    print(f"critic loss first {losses[0]:.5f} last {losses[-1]:.5f} mean {losses.mean():.5f}")
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
