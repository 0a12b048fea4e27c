"""Double DQN on a small pixel game (catch the falling block with a paddle)."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from replay import ReplayBuffer

SIZE = 42
STACK = 4


class CatchEnv:
    """A block falls from the top; move the paddle left, stay, or right to catch it."""

    n_actions = 3

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.frames = np.zeros((STACK, SIZE, SIZE), dtype=np.float32)

    def _frame(self):
        frame = np.zeros((SIZE, SIZE), dtype=np.float32)
        frame[self.row:self.row + 3, self.col:self.col + 3] = 1.0
        frame[SIZE - 2:, self.paddle:self.paddle + 8] = 0.5
        return frame

    def reset(self):
        self.row = 0
        self.col = int(self.rng.integers(0, SIZE - 3))
        self.paddle = (SIZE - 8) // 2
        self.frames = np.repeat(self._frame()[None], STACK, axis=0)
        return self.frames

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + 3 * (action - 1), 0, SIZE - 8))
        self.row += 2
        self.frames = np.concatenate([self.frames[1:], self._frame()[None]])
        done = self.row >= SIZE - 4
        reward = 0.0
        if done:
            caught = self.paddle - 2 <= self.col <= self.paddle + 7
            reward = 1.0 if caught else -1.0
        return self.frames, reward, done


class QNetwork(nn.Module):
    def __init__(self, n_actions):
        super().__init__()
        self.conv1 = nn.Conv2d(STACK, 32, 5, stride=2)
        self.conv2 = nn.Conv2d(32, 64, 3, stride=1)
        self.conv3 = nn.Conv2d(64, 64, 3, stride=2)
        self.fc1 = nn.Linear(64 * 8 * 8, 256)
        self.fc2 = nn.Linear(256, n_actions)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.relu(self.conv3(x))
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(x)


class DQNAgent:
    def __init__(self, n_actions, gamma=0.99, lr=2.5e-4, batch_size=128):
        self.n_actions = n_actions
        self.gamma = gamma
        self.batch_size = batch_size
        self.policy_net = QNetwork(n_actions)
        self.target_net = QNetwork(n_actions)
        self.target_net.load_state_dict(self.policy_net.state_dict())
        self.optimizer = torch.optim.Adam(self.policy_net.parameters(), lr=lr)
        self.memory = ReplayBuffer(5000)

    def act(self, state, epsilon):
        if random.random() < epsilon:
            return random.randrange(self.n_actions)
        with torch.no_grad():
            q = self.policy_net(torch.from_numpy(state).unsqueeze(0))
        return int(q.argmax(dim=1))

    def learn(self):
        states, actions, rewards, next_states, dones = self.memory.sample(self.batch_size)
        q = self.policy_net(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.policy_net(next_states).argmax(dim=1, keepdim=True)
            next_q = self.target_net(next_states).gather(1, best).squeeze(1)
            target = rewards + self.gamma * (1.0 - dones) * next_q
        loss = F.smooth_l1_loss(q, target)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy_net.parameters(), 10.0)
        self.optimizer.step()
        return loss.item()

    def sync_target(self):
        self.target_net.load_state_dict(self.policy_net.state_dict())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warmup", type=int, default=600)
    parser.add_argument("--train-freq", type=int, default=4)
    args = parser.parse_args()

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)

    env = CatchEnv(seed=3)
    agent = DQNAgent(env.n_actions)
    state = env.reset()
    for _ in range(args.warmup):
        action = random.randrange(env.n_actions)
        next_state, reward, done = env.step(action)
        agent.memory.push(state, action, reward, next_state, done)
        state = env.reset() if done else next_state

    times = []
    for step in range(1, args.steps + 1):
        t0 = time.perf_counter()
        epsilon = max(0.1, 1.0 - step / 200)
        for _ in range(args.train_freq):
            action = agent.act(state, epsilon)
            next_state, reward, done = env.step(action)
            agent.memory.push(state, action, reward, next_state, done)
            state = env.reset() if done else next_state
        loss = agent.learn()
        if step % 25 == 0:
            agent.sync_target()
        times.append(time.perf_counter() - t0)
        if step == 1 or step % 10 == 0:
            print(f"step {step}: loss {loss:.5f} epsilon {epsilon:.2f}")
    print(f"step_ms: {np.median(times) * 1e3:.2f}")


if __name__ == "__main__":
    main()
