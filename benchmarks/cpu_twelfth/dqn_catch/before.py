"""DQN on a pixel version of Catch: move the paddle under the falling ball."""
import argparse
import random
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 42
HISTORY = 4
Transition = namedtuple("Transition", ("state", "action", "reward", "next_state", "done"))


class CatchEnv:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.ball_x, self.ball_y = int(self.rng.integers(2, SIZE - 2)), 1
        self.drift = int(self.rng.integers(-1, 2))
        self.paddle = SIZE // 2
        self.frames = np.stack([self._render()] * HISTORY)
        return self.frames

    def _render(self):
        frame = np.zeros((SIZE, SIZE), dtype=np.uint8)
        frame[max(self.ball_y - 1, 0):self.ball_y + 2, self.ball_x - 1:self.ball_x + 2] = 255
        frame[SIZE - 2:, max(self.paddle - 4, 0):self.paddle + 5] = 160
        return frame

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + 3 * (action - 1), 4, SIZE - 5))
        self.ball_y += 2
        self.ball_x = int(np.clip(self.ball_x + self.drift, 1, SIZE - 2))
        done = self.ball_y >= SIZE - 3
        reward = 0.0
        if done:
            reward = 1.0 if abs(self.ball_x - self.paddle) <= 5 else -1.0
        self.frames = np.concatenate([self.frames[1:], self._render()[None]])
        return self.frames, reward, done


class ReplayMemory:
    def __init__(self, capacity):
        self.capacity, self.memory, self.position = capacity, [], 0

    def push(self, *args):
        if len(self.memory) < self.capacity:
            self.memory.append(None)
        self.memory[self.position] = Transition(*args)
        self.position = (self.position + 1) % self.capacity

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)


class QNet(nn.Module):
    def __init__(self, n_actions=3):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(HISTORY, 32, 6, stride=2), nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(),
            nn.Conv2d(64, 64, 3), nn.ReLU())
        self.fc = nn.Sequential(nn.Linear(64 * 7 * 7, 256), nn.ReLU(), nn.Linear(256, n_actions))

    def forward(self, x):
        return self.fc(self.conv(x / 255.0).flatten(1))


class Agent:
    def __init__(self, args):
        self.args = args
        self.policy_net, self.target_net = QNet(), QNet()
        self.target_net.load_state_dict(self.policy_net.state_dict())
        self.target_net.requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.policy_net.parameters(), lr=args.lr, fused=True)
        self.memory = ReplayMemory(args.capacity)

    @torch.inference_mode()
    def act(self, state, eps):
        if random.random() < eps:
            return random.randrange(3)
        obs = torch.tensor(state, dtype=torch.float32).unsqueeze(0)
        return self.policy_net(obs).argmax(1).item()

    def optimize(self):
        transitions = self.memory.sample(self.args.batch_size)
        batch = Transition(*zip(*transitions))
        states = torch.tensor(batch.state, dtype=torch.float32)
        next_states = torch.tensor(batch.next_state, dtype=torch.float32)
        actions = torch.tensor(batch.action)
        rewards = torch.tensor(batch.reward)
        not_done = 1.0 - torch.tensor(batch.done, dtype=torch.float32)

        q = self.policy_net(states).gather(1, actions[:, None]).squeeze(1)
        with torch.no_grad():
            # double DQN: the online network chooses, the target network judges
            best = self.policy_net(next_states).argmax(1, keepdim=True)
            next_q = self.target_net(next_states).gather(1, best).squeeze(1)
        target = rewards + self.args.gamma * not_done * next_q
        loss = F.smooth_l1_loss(q, target)

        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--capacity", type=int, default=5000)
    parser.add_argument("--warmup", type=int, default=800)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--target-every", type=int, default=25)
    args = parser.parse_args()

    random.seed(0)
    torch.manual_seed(0)
    env, agent = CatchEnv(seed=0), Agent(args)

    state = env.reset()
    losses = []
    for t in range(args.warmup + args.steps):
        learning = t >= args.warmup
        eps = max(0.1, 1.0 - (t - args.warmup) / 100) if learning else 1.0
        action = agent.act(state, eps)
        next_state, reward, done = env.step(action)
        agent.memory.push(state, action, reward, next_state, done)
        state = env.reset() if done else next_state
        if learning:
            losses.append(agent.optimize())
            if len(losses) % args.target_every == 0:
                agent.target_net.load_state_dict(agent.policy_net.state_dict())
    print(f"updates {len(losses)} mean td loss {np.mean(losses) if losses else float('nan'):.4f}")


if __name__ == "__main__":
    main()
