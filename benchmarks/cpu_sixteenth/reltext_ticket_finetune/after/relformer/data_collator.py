import torch


class DataCollatorWithPadding:
    """Pads to the longest of the batch, rounded up."""

    def __init__(self, pad_token_id=0, pad_to_multiple_of=8):
        self.pad_token_id, self.multiple = pad_token_id, pad_to_multiple_of

    def __call__(self, features):
        longest = max(len(f["input_ids"]) for f in features)
        longest = -(-longest // self.multiple) * self.multiple
        ids = torch.full((len(features), longest), self.pad_token_id, dtype=torch.long)
        mask = torch.zeros(len(features), longest, dtype=torch.long)
        for i, f in enumerate(features):
            n = len(f["input_ids"])
            ids[i, :n] = torch.as_tensor(f["input_ids"])
            mask[i, :n] = 1
        labels = torch.tensor([f["label"] for f in features])
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}
