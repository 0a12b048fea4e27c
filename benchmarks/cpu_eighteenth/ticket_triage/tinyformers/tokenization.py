import re
from collections import Counter

PATTERN = re.compile(r"\w+|[^\w\s]")


class WordTokenizer:
    def __init__(self, vocab, model_max_length=256):
        self.vocab = vocab
        self.model_max_length = model_max_length
        self.pad_token_id, self.unk_token_id = vocab["[PAD]"], vocab["[UNK]"]
        self.cls_token_id, self.sep_token_id = vocab["[CLS]"], vocab["[SEP]"]

    @classmethod
    def train(cls, texts, size, **kwargs):
        counts = Counter(w for t in texts for w in PATTERN.findall(t.lower()))
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + [w for w, _ in counts.most_common(size - 4)]
        return cls({w: i for i, w in enumerate(words)}, **kwargs)

    def __len__(self):
        return len(self.vocab)

    def __call__(self, text, truncation=False, padding=False, max_length=None):
        max_length = max_length or self.model_max_length
        ids = [self.vocab.get(w, self.unk_token_id) for w in PATTERN.findall(text.lower())]
        if truncation:
            ids = ids[: max_length - 2]
        ids = [self.cls_token_id, *ids, self.sep_token_id]
        mask = [1] * len(ids)
        if padding == "max_length":
            extra = max_length - len(ids)
            ids += [self.pad_token_id] * extra
            mask += [0] * extra
        return {"input_ids": ids, "attention_mask": mask}

    def pad(self, features):
        width = max(len(f["input_ids"]) for f in features)
        out = []
        for f in features:
            extra = width - len(f["input_ids"])
            out.append({**f, "input_ids": f["input_ids"] + [self.pad_token_id] * extra,
                        "attention_mask": f["attention_mask"] + [0] * extra})
        return out
