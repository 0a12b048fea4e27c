"""PPO for the coupled tanks. One iteration = rollout in all plants + a few epochs of updates."""
import argparse
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from tanks.agent import Agent, advantages
from tanks.plant import TANKS, Plants


class Rollout:
    def __init__(self, horizon, plants, obs, actions):
        self.obs = torch.empty(horizon, plants, obs)
        self.action = torch.empty(horizon, plants, actions)
        self.logp, self.value, self.reward, self.done = torch.empty(4, horizon, plants).unbind(0)

    @torch.no_grad()
    def collect(self, env, agent, obs):
        for t in range(len(self.obs)):
            self.obs[t] = obs
            self.action[t], self.logp[t], self.value[t] = agent.act(obs)
            obs, self.reward[t], self.done[t] = env.step(self.action[t])
        last = agent.value(obs).squeeze(-1)
        adv = advantages(self.reward, self.value, self.done, last)
        flat = lambda x: x.flatten(0, 1)
        return obs, [flat(x) for x in (self.obs, self.action, self.logp, adv, adv + self.value)]


def improve(agent, opt, data, epochs, minibatch, clip=0.2):
    total = len(data[0])
    for _ in range(epochs):
        for rows in torch.randperm(total).split(minibatch):
            obs, action, old, adv, target = (x[rows] for x in data)
            adv = (adv - adv.mean()) / (adv.std() + 1e-6)
            logp, value, entropy = agent(obs, action)
            ratio = (logp - old).exp()
            gain = torch.minimum(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()
            loss = -gain + 0.5 * F.mse_loss(value, target) - 1e-3 * entropy
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            opt.step()
    return loss.item()


@torch.inference_mode()
def evaluate(agent, plants=64, horizon=60):
    env = Plants(plants, seed=77)
    obs, total = env.observe(), torch.zeros(plants)
    for _ in range(horizon):
        obs, reward, _ = env.step(agent.policy(obs))
        total += reward
    return total.mean().item() / horizon


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60, help="iterations of rollout and update")
    ap.add_argument("--plants", type=int, default=128)
    ap.add_argument("--horizon", type=int, default=24)
    ap.add_argument("--epochs", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(0)

    env = Plants(args.plants, seed=1)
    obs = env.observe()
    agent = Agent(obs.shape[1], TANKS)
    opt = torch.optim.Adam(agent.parameters(), lr=5e-4, eps=1e-5, fused=True)
    rollout = Rollout(args.horizon, args.plants, obs.shape[1], TANKS)

    times = []
    for step in range(1, args.steps + 1):
        t0 = time.perf_counter()
        obs, data = rollout.collect(env, agent, obs)
        loss = improve(agent, opt, data, args.epochs, minibatch=768)
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            print(f"iteration {step}  loss {loss:.4f}  reward {rollout.reward.mean().item():.4f}  "
                  f"greedy {evaluate(agent):.4f}")
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
