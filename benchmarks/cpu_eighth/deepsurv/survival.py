import torch


def cox_ph_loss(log_hazard, duration, event):
    """Negative Cox partial log-likelihood, averaged over the observed events."""
    terms = []
    for i in range(len(duration)):
        if event[i] == 1:
            at_risk = log_hazard[duration >= duration[i]]
            terms.append(log_hazard[i] - torch.logsumexp(at_risk, dim=0))
    return -torch.stack(terms).mean()


def concordance_index(log_hazard, duration, event):
    """Share of comparable pairs ranked correctly by the predicted hazard."""
    comparable = (duration[:, None] < duration[None, :]) & (event[:, None] == 1)
    correct = log_hazard[:, None] > log_hazard[None, :]
    return ((correct & comparable).sum() / comparable.sum()).item()
