"""PPO on a batched two-link reacher that is simulated on the accelerator."""
import argparse
import json
import math
import time

import torch
import torch.nn as nn

WARMUP = 10
LOG_2PI = math.log(2 * math.pi)


class ReacherEnv:
    """Torque-driven point arm; an episode ends at the goal or after a limit."""

    def __init__(self, count, device, limit=200, dt=0.05):
        self.count, self.device, self.limit, self.dt = count, device, limit, dt
        self.position = torch.zeros(count, 2, device=device)
        self.velocity = torch.zeros(count, 2, device=device)
        self.goal = torch.rand(count, 2, device=device) * 2 - 1
        self.age = torch.zeros(count, device=device)

    def observe(self):
        return torch.cat([self.position, self.velocity, self.goal, self.goal - self.position], dim=1)

    def step(self, action):
        torque = action.clamp(-1, 1)
        self.velocity = 0.98 * self.velocity + self.dt * torque
        self.position = self.position + self.dt * self.velocity
        distance = (self.goal - self.position).norm(dim=1)
        reward = -distance - 0.01 * torque.square().sum(dim=1)
        self.age += 1
        done = (distance < 0.05) | (self.age >= self.limit)
        alive = (~done).float()
        self.age *= alive
        keep = alive[:, None]
        self.position *= keep
        self.velocity *= keep
        self.goal = torch.where(done[:, None], torch.rand_like(self.goal) * 2 - 1, self.goal)
        return self.observe(), reward, done.float()


class Agent(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(),
                                   nn.Linear(hidden, hidden), nn.Tanh())
        self.mean = nn.Linear(hidden, act_dim)
        self.value = nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))

    def forward(self, obs):
        h = self.trunk(obs)
        return self.mean(h), self.value(h).squeeze(-1)

    def log_prob(self, mean, action):
        z = (action - mean) * torch.exp(-self.log_std)
        return (-0.5 * z * z - self.log_std - 0.5 * LOG_2PI).sum(dim=-1)

    def act(self, obs):
        mean, value = self(obs)
        action = mean + torch.exp(self.log_std) * torch.randn_like(mean)
        return action, self.log_prob(mean, action), value


class Rollout:
    def __init__(self, horizon, count, obs_dim, act_dim, device):
        self.obs = torch.zeros(horizon, count, obs_dim, device=device)
        self.actions = torch.zeros(horizon, count, act_dim, device=device)
        self.log_probs = torch.zeros(horizon, count, device=device)
        self.values = torch.zeros(horizon, count, device=device)
        self.rewards = torch.zeros(horizon, count, device=device)
        self.dones = torch.zeros(horizon, count, device=device)

    @torch.no_grad()
    def collect(self, agent, env, obs):
        for t in range(len(self.obs)):
            action, log_prob, value = agent.act(obs)
            self.obs[t] = obs
            self.actions[t] = action
            self.log_probs[t] = log_prob
            self.values[t] = value
            obs, self.rewards[t], self.dones[t] = env.step(action)
        return obs, agent(obs)[1]


@torch.no_grad()
def estimate_advantages(rewards, values, dones, last_value, gamma, lam):
    horizon = len(rewards)
    advantages = torch.zeros_like(rewards)
    carry = torch.zeros_like(last_value)
    for t in reversed(range(horizon)):
        following = last_value if t == horizon - 1 else values[t + 1]
        alive = 1.0 - dones[t]
        delta = rewards[t] + gamma * following * alive - values[t]
        carry = delta + gamma * lam * alive * carry
        advantages[t] = carry
    return advantages, advantages + values


def update(agent, optimizer, rollout, advantages, returns, epochs, minibatches, clip):
    obs = rollout.obs.flatten(0, 1)
    actions = rollout.actions.flatten(0, 1)
    old_log_probs = rollout.log_probs.flatten()
    advantages, returns = advantages.flatten(), returns.flatten()
    for _ in range(epochs):
        order = torch.randperm(len(obs), device=obs.device)
        for index in order.chunk(minibatches):
            mean, value = agent(obs[index])
            ratio = torch.exp(agent.log_prob(mean, actions[index]) - old_log_probs[index])
            adv = advantages[index]
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            policy_loss = -torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()
            value_loss = 0.5 * (value - returns[index]).square().mean()
            loss = policy_loss + 0.5 * value_loss - 0.001 * agent.log_std.sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    if args.small:
        count, horizon, hidden, epochs, minibatches = 16, 8, 16, 1, 2
    else:
        count, horizon, hidden, epochs, minibatches = 1024, 128, 256, 2, 4

    env = ReacherEnv(count, device)
    agent = Agent(8, 2, hidden).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    rollout = Rollout(horizon, count, 8, 2, device)
    obs = env.observe()
    mean_reward = torch.zeros((), device=device)

    for iteration in range(WARMUP + args.steps):
        if iteration == WARMUP:
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
        obs, last_value = rollout.collect(agent, env, obs)
        advantages, returns = estimate_advantages(rollout.rewards, rollout.values, rollout.dones,
                                                  last_value, gamma=0.99, lam=0.95)
        update(agent, optimizer, rollout, advantages, returns, epochs, minibatches, clip=0.2)
        mean_reward.lerp_(rollout.rewards.mean(), 0.1)

    if device == "cuda":
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    print(f"mean reward {mean_reward.item():.4f}, last mean return {returns.mean().item():.4f}")
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0
    print(json.dumps({"ms": elapsed / args.steps * 1e3, "peak_mb": peak}))


if __name__ == "__main__":
    main()
