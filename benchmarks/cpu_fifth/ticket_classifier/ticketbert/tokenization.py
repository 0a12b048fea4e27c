from collections import Counter


class TicketTokenizer:
    """Whitespace word tokenizer with [PAD], [UNK] and [CLS]."""

    pad_token_id, unk_token_id, cls_token_id = 0, 1, 2

    def __init__(self, texts, vocab_size, model_max_length=128):
        counts = Counter(word for text in texts for word in text.split())
        words = [w for w, _ in counts.most_common(vocab_size - 3)]
        self.vocab = {w: i + 3 for i, w in enumerate(words)}
        self.model_max_length = model_max_length

    def __call__(self, text):
        ids = [self.cls_token_id] + [self.vocab.get(w, self.unk_token_id) for w in text.split()]
        return {"input_ids": ids[:self.model_max_length]}

    def pad(self, features, padding="longest", max_length=None):
        """Pads a list of encodings to the longest of them, or to max_length."""
        if padding == "max_length":
            length = max_length or self.model_max_length
        else:
            length = max(len(f["input_ids"]) for f in features)
        ids = [f["input_ids"] + [self.pad_token_id] * (length - len(f["input_ids"])) for f in features]
        mask = [[1] * len(f["input_ids"]) + [0] * (length - len(f["input_ids"])) for f in features]
        return {"input_ids": ids, "attention_mask": mask}
