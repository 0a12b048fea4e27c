# %% [markdown]
# # Kriging of drill-hole assays
# Fit a Gaussian process to copper grades by maximising the marginal likelihood,
# and predict on held-out assays. The ratio of vertical to horizontal range is
# known from the geology.

# %%
import argparse
import math

import torch


# %% Synthetic drill-hole campaign
def drill_campaign(holes=80, assays_per_hole=9, seed=7):
    """Collar positions in km, depths in 100 m, grades in log percent."""
    gen = torch.Generator().manual_seed(seed)
    collars = torch.rand(holes, 2, generator=gen, dtype=torch.float64) * 4
    depths = torch.linspace(0.2, 3.0, assays_per_hole, dtype=torch.float64)
    xyz = torch.cat(
        [
            collars.repeat_interleave(assays_per_hole, dim=0),
            depths.repeat(holes).unsqueeze(1),
        ],
        dim=1,
    )
    xyz[:, :2] += 0.02 * torch.randn(len(xyz), 2, generator=gen, dtype=torch.float64)
    lens = torch.sin(1.3 * xyz[:, 0]) * torch.cos(0.9 * xyz[:, 1]) - 0.3 * (xyz[:, 2] - 1.5) ** 2
    noise = 0.15 * torch.randn(len(xyz), generator=gen, dtype=torch.float64)
    return xyz, lens + noise


# %% Covariance and likelihood
# Double precision: neighbouring assays make the covariance nearly singular.
def squared_distance(a, b, vertical=1.5):
    stretch = torch.tensor([1.0, 1.0, vertical], dtype=a.dtype)
    return torch.cdist(a * stretch, b * stretch).square()


def covariance(d2, params):
    return torch.exp(2 * params["log_amp"] - 0.5 * torch.exp(-2 * params["log_length"]) * d2)


def negative_log_likelihood(d2, y, params):
    n = len(y)
    eye = torch.eye(n, dtype=y.dtype)
    K = covariance(d2, params) + torch.exp(2 * params["log_noise"]) * eye
    r = y - params["mean"]
    fit = r @ torch.inverse(K) @ r
    return 0.5 * (fit + torch.logdet(K) + n * math.log(2 * math.pi)) / n


# %% Prediction at new locations
@torch.no_grad()
def predict(x_new, x, y, d2, params):
    K = covariance(d2, params)
    K.diagonal().add_(torch.exp(2 * params["log_noise"]))
    Ks = covariance(squared_distance(x_new, x), params)
    return params["mean"] + Ks @ torch.linalg.solve(K, y - params["mean"])


# %% Fit
def fit(x, y, steps):
    d2 = squared_distance(x, x)
    params = {
        "log_amp": torch.zeros((), dtype=torch.float64),
        "log_length": torch.zeros((), dtype=torch.float64),
        "log_noise": torch.tensor(-1.0, dtype=torch.float64),
        "mean": y.mean().clone(),
    }
    for p in params.values():
        p.requires_grad_()
    optimizer = torch.optim.Adam(params.values(), lr=0.03)
    nll = None
    for _ in range(steps):
        optimizer.zero_grad()
        nll = negative_log_likelihood(d2, y, params)
        nll.backward()
        optimizer.step()
    return params, d2, nll.item()


# %% Run
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    xyz, grade = drill_campaign()
    held_out = torch.arange(len(xyz)) % 10 == 0
    x_train, y_train = xyz[~held_out], grade[~held_out]
    x_test, y_test = xyz[held_out], grade[held_out]

    params, d2, nll = fit(x_train, y_train, args.steps)
    mean = predict(x_test, x_train, y_train, d2, params)
    rmse = (mean - y_test).square().mean().sqrt().item()
    print(f"steps {args.steps}  nll per assay {nll:.5f}  held-out rmse {rmse:.5f}")
