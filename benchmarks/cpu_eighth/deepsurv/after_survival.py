import torch


def cox_ph_loss(log_hazard, duration, event):
    """Negative Cox partial log-likelihood, averaged over the observed events."""
    observed = event == 1
    at_risk = duration[None, :] >= duration[observed][:, None]
    scores = log_hazard[None, :].masked_fill(~at_risk, float("-inf"))
    return -(log_hazard[observed] - torch.logsumexp(scores, dim=1)).mean()


def concordance_index(log_hazard, duration, event):
    """Share of comparable pairs ranked correctly by the predicted hazard."""
    comparable = (duration[:, None] < duration[None, :]) & (event[:, None] == 1)
    correct = log_hazard[:, None] > log_hazard[None, :]
    return ((correct & comparable).sum() / comparable.sum()).item()
