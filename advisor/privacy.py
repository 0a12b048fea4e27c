"""Privacy of texts that somebody else wrote: no credential is shown, and no person's name in a path or an address.

:func:`scrub` cleans any text of a trace (names, stacks, groups, devices), :func:`clean_path` a path, :func:`address` a URL or
what else a user names to be read; :func:`without_secrets` also what libraries and the advisor itself put into errors;
:func:`excerpt` what a message quotes of a file; :func:`file_names` names files for others to read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import takewhile

from advisor.regex import regex

HIDDEN = "***"
_PASSES = 4

# ---- URLs

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]+"
_IS_URL = regex(rf"(?:{_SCHEME}::)*{_SCHEME}://")
# A drive is no scheme. One slash is what a path makes of two.
_IN_TEXT = regex(rf"(?<![A-Za-z0-9+.-]){_SCHEME}:/+[^\s'\"<>`]*")
_PARTS = regex(rf"::(?={_SCHEME}:/)")
_AUTHORITY = regex(rf"({_SCHEME}:/+)(.*)", re.DOTALL)
# user:password@host without a scheme, as in connection strings and addresses of schedulers.
_BARE = regex(r"(?<![\w.%+:@/-])[\w.%+-]+:[^\s:/@'\"<>]{3,}@(?=[\w\[-])")


def is_url(text: str) -> bool:
    """Tell whether *text* is a URL, or a chain of them (``simplecache::https://…``), and no path."""
    return _IS_URL.match(text) is not None


def address(text: str) -> str:
    """*text* without what may be secret, where it is a URL: user and password, parameters, query, fragment. A path stays."""
    if not is_url(text) and not _AUTHORITY.match(text):
        return text
    return "::".join(_public(part) for part in _PARTS.split(text))


def _public(url: str) -> str:
    match = _AUTHORITY.fullmatch(url)
    if match is None:  # the protocol at the head of a chain
        return url
    scheme, rest = match[1], match[2]
    at = rest.rfind("@")
    head, first = rest[: max(at, 0)], re.split(r"[/?#;]", rest)[0]
    if at >= 0 and re.search(r"[?#;]", head):
        return scheme + HIDDEN  # a query with an @, or a password with a question mark: nobody can tell
    if at >= 0 and (
        ":" in first or "@" in first
    ):  # of a path with an @ behind a port that costs the host: it is only shown
        rest = rest[at + 1 :]
    return scheme + (re.split(r"[?#;]", rest)[0] if scheme.endswith("//") else rest)


def quoted(message: str, text: str) -> str:
    """A library's *message* on an address, in one line, without what :func:`address` hides; empty where it quotes that."""
    from urllib.parse import unquote

    message, kept = " ".join(without_secrets(message).split()), address(text)
    seen = f"{message} {unquote(message)}".lower()
    hidden = {part for part in re.split(r"[\s:/@?#;&=,]+", text) if part and part not in kept}
    for part in hidden | {unquote(part) for part in hidden}:
        whole = re.escape(part.lower())
        if re.search(whole if len(part) > 3 else rf"(?<![a-z0-9]){whole}(?![a-z0-9])", seen):
            return ""
    return message


# ---- tokens and keys

_TOKEN = regex(
    r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}\b|hf_(?=[A-Za-z]*\d)[A-Za-z0-9]{20,}+|gh[oprsu]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+"
    r"|npm_[A-Za-z0-9]{30,}+|(?i:bearer)\s[\w.~+/-]{8,}+=*+)"
    r"|(?<![\w-])(?:glpat-[\w-]{16,}+|sk-[\w-]{20,}+|xox[a-z]-[\w-]{10,}+|eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)?"
    r"|AIza[\w-]{30,}+|ya29\.[\w-]{20,}+|pypi-[\w-]{40,}+)"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!----END))*+"
)
_KEY = regex(r"(?<![\w.-])([\w.-]++)([\"']?\s{0,3}+(?:=(?!=)|:(?!:))\s{0,3}+[\"']?)(?=[^\s\"'])")
_SECRET_KEY = regex(
    r"secret|passw(?:or)?d|passphrase|credential|authorization|(?:api|access|private|account|storage)[_-]?key|sas[_-]?token",
    re.IGNORECASE,
)
# `tokens`, `num_tokens` count what a model reads; a number behind `token` is such a count or an id, too.
_TOKEN_KEY = regex(r"(?:^|[_.-]|(?<=[a-z])(?=T)|(?<=access)|(?<=auth))(?:token|TOKEN|Token|pwd|PWD)$")
_NO_SECRET = regex(r"-?[\d.]+(?![^\s,;)\]}>])|[/\\~]")
_VALUE = regex(r"(?:(?i:bearer|basic|token)\s++)?[^\s\"',;&<>(){}\[\]]++")
_EMAIL = regex(
    r"(?<![\w.%+@-])[\w.%+-]{1,64}+@(?:[\w-]++\.)+(?!(?:py|so|cu|cpp|c|h|hpp|cc|js|dll|o)\b)[A-Za-z]{2,24}+(?![\w(])"
)
# One of these stands in whatever the patterns fit. In lower case.
_ADDRESS_MARKS = (":/", "@")
_TOKEN_MARKS = (
    "bearer", "akia", "asia", "hf_", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "sk-", "xox", "eyj", "aiza",
    "ya29.", "npm_", "pypi-", "private key-",
)  # fmt: skip
_KEY_MARKS = (
    "secret", "passw", "passphrase", "credential", "authorization", "ikey", "i_key", "i-key", "skey", "s_key", "s-key", "tekey",
    "te_key", "te-key", "tkey", "t_key", "t-key", "gekey", "ge_key", "ge-key", "token", "pwd",
)  # fmt: skip
_SECRET_MARKS = (*_ADDRESS_MARKS, *_TOKEN_MARKS, *_KEY_MARKS)
# What a text with a secret behind a key looks like: most names with a `key` or a `token` in them are told apart by this.
_LIKELY = regex(
    r"(?:secret|passw|passphrase|credential|authorization|key|token|pwd)[\w.-]{0,64}+[\"']?\s{0,3}+[=:](?![=:])",
    re.IGNORECASE,
)
_OPTION = regex(
    r"(?<![\w-])(--[\w-]{0,40}(?:secret|passw(?:or)?d|token|(?:api|access|private)-?key)\s{1,3}+)[^\s-]\S*+",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """*text* without credentials: those of URLs, tokens of known forms, and what stands behind a key such as ``password=``."""
    low = text.lower()
    return _without_secrets(text, [mark for mark in _SECRET_MARKS if mark in low])


def _without_secrets(text: str, marks: Sequence[str]) -> str:
    """Clean a text in which no other than these *marks* can stand."""
    if ":/" in text:
        text = _IN_TEXT.sub(lambda match: address(match[0]), text)
    if "@" in text:
        text = _BARE.sub("", text)
    low = text.lower()
    held = [mark for mark in marks if mark in low]
    if any(mark in _TOKEN_MARKS for mark in held):
        text = _TOKEN.sub(HIDDEN, text)
    if any(mark in _KEY_MARKS for mark in held):
        if "--" in text:
            text = _OPTION.sub(rf"\1{HIDDEN}", text)
        if _LIKELY.search(text):
            text = _without_values(text)
    return text


def _without_values(text: str) -> str:
    """Hide what stands behind the keys of secrets."""
    out, done = [], 0
    for match in _KEY.finditer(text):
        if match.start() < done:
            continue
        secret = _SECRET_KEY.search(match[1]) is not None
        if not secret and (not _TOKEN_KEY.search(match[1]) or _NO_SECRET.match(text, match.end())):
            continue
        if value := _VALUE.match(text, match.end()):
            out += [text[done : match.end()], HIDDEN]
            done = value.end()
    return "".join([*out, text[done:]]) if out else text


# ---- persons in paths

# Folders in which each user has one: /home, /nfs/homes, /ihome2, C:\Users, and where clusters keep their users' files.
_FOLDERS = (
    r"(?:(?:nfs|net|i|g|l|u|my|work|data|usr|users?|export|local|cluster|hpc|lab|student|staff)?[_-]?homes?(?:dirs?)?\d{0,3}"
    r"|[Uu]sers?\d{0,2}|scratch\d{0,2}|fsx|lustre|gpfs|netscratch)"
)
# Of these only at the root: elsewhere they are folders like others.
_ROOTS = r"(?:u\d{0,2}|people|students|staff|accounts)"
_SEP = r"[/\\]+"
# a/alice/, al/alice/, a/al/alice/: large sites sort their users.
_OWNER = rf"(?:(?P<one>[^/\\]){_SEP}(?:(?P=one)[^/\\]?{_SEP})?(?=(?P=one)))?[^/\\]+"
_PERSONAL = regex(
    rf"^.*(?:[/\\]{_FOLDERS}{_SEP}{_OWNER}{_SEP}|~[\w.-]*{_SEP})"
    rf"|(?:^|(?<=[=:\[{{<>|])){_SEP}(?:root{_SEP}|(?:afs{_SEP}[^/\\]+{_SEP})?{_ROOTS}{_SEP}{_OWNER.replace('one', 'two')}{_SEP}"
    rf"|(?:run{_SEP})?media{_SEP}[^/\\]+{_SEP})",
    re.DOTALL,
)
# The folder itself, /home/alice: what has the suffix of a file is one that lies in it. In two parts, as one pattern takes the
# square of a path of many separators: where the path begins, and what follows to its end.
_BEGINS = regex(rf"(?:^|[=:\[{{<>|]){_SEP}")
_HOMES = regex(rf"{_FOLDERS}")
_AT_ROOT = regex(rf"(?:afs{_SEP}[^/\\]+{_SEP})?{_ROOTS}")
_DRIVE = regex(r"(?<![A-Za-z])[A-Za-z]:$")
_FILE = regex(
    r"\.(?:pyx?|pyc|ipynb|jsonl?|gz|zip|tar|so|cu|cuh|cpp|cc|c|h|hpp|toml|ya?ml|cfg|ini|pt|pth|bin|txt|log|sh|csv|h5|pkl|npy|npz"
    r"|parquet|safetensors|md|html|whl|egg)$",
    re.IGNORECASE,
)
# \\host\share\: both name something of somebody's; \\?\ only says that a long path follows.
_SHARE = regex(
    r"(?<![\w:/\\])\\{2,4}(?:[?.]\\{1,2}(?!UNC\\)|(?:[?.]\\{1,2}UNC\\{1,2})?[^\\/\s\"'?]+\\+(?:[^\\/\n\"']*\\+|[^\\\s\"']*))",
    re.IGNORECASE,
)
_SHARE_SLASHED = regex(
    rf"^//(?![/]|(?:home|Users|usr|opt|mnt|data|root|tmp|var|srv|etc|lib|proc)/|{_FOLDERS}/)[^/]+/[^/]+/"
)
_A_FOLDER = regex(rf"{_FOLDERS}[/\\]")
# A name of several words, as people have them on Windows and macOS; at the end of a text only behind a folder that is sure.
_NAMES = r"[^/\\\s\"'():,;]+(?: [^/\\\s\"'():,;]+){1,3}+"
_SPACED = regex(
    rf"(?<=[/\\])({_FOLDERS}{_SEP})({_NAMES})(?=[/\\])|(?<![\w/\\.-])((?:[A-Za-z]:)?{_SEP}(?:Users|home){_SEP})({_NAMES})(?=[\"'()]|$)",
    re.MULTILINE,
)
_WORD = regex(r"[^\s\"'();,]+")
_INDUCTOR = regex(r"torchinductor_[^/\\]*")
_PERSON_MARKS = (
    "home", "sers", "user", "scratch", "fsx", "lustre", "gpfs", "~", "root/", "torchinductor_", "\\\\", "/u", "media/", "people/",
    "stud", "staff/", "accounts/",
)  # fmt: skip


def without_persons(text: str) -> str:
    """*text* without home directories, wherever in it they stand, without hosts of Windows shares and mail addresses."""
    if "@" in text:
        text = _EMAIL.sub(HIDDEN, text)
    if not any(mark in text for mark in _PERSON_MARKS):
        return text
    if "\\\\" in text:
        text = _without_share(text)
    if " " in text:
        text = _SPACED.sub(lambda match: match[0].replace(" ", "_"), text)
    return _WORD.sub(_impersonal, text)


def _impersonal(word: re.Match[str]) -> str:
    return _without_home(_INDUCTOR.sub("torchinductor", word[0]))


def _without_home(path: str) -> str:
    for _ in range(_PASSES):
        before = None if _FILE.search(path) else _before_home(path)
        shorter = _PERSONAL.sub("", path, count=1) if before is None else _DRIVE.sub("", before) + "~"
        if shorter == path:
            return path
        path = shorter
    return "~"


def _before_home(path: str) -> str | None:
    """The text before the home directory that *path* ends with (``--data=`` of ``--data=/home/alice``); None without one."""
    last = max(path.rfind("/"), path.rfind("\\"))
    above = path[: last + 1].rstrip("/\\")
    if last < 0 or last + 1 == len(path) or not above:
        return None
    folder = max(above.rfind("/"), above.rfind("\\")) + 1
    begins = list(_BEGINS.finditer(path, 0, folder))
    if not begins:
        return None
    begin = begins[-1]  # the others are in the names of folders
    if not _HOMES.fullmatch(above, folder) and not _AT_ROOT.fullmatch(above, begin.end()):
        return None
    return path[: begin.start() + (path[begin.start()] not in "/\\")]


def _without_share(text: str) -> str:
    """Leave out what names a Windows share. What follows it may be a user's folder, and has to look like one."""
    return _SHARE.sub(lambda match: "\\" if _A_FOLDER.match(text, match.end()) else "", text)


def without_home(path: str) -> str:
    """*path*, one of this machine, without the name of whose home directory it lies in: the user's own is ``~``."""
    import os

    home = os.path.expanduser("~")
    if len(home) > 1 and path.startswith((f"{home}/", f"{home}{os.sep}")):
        return f"~{path[len(home) :]}"
    return path if path.startswith("~") else _without_home(_without_share(path))


def scrub(text: str) -> str:
    """*text* of a trace as it may be shown: without credentials and without persons' names in paths and addresses."""
    return _clean(text, _SECRET_MARKS)


def _clean(text: str, marks: Sequence[str]) -> str:
    for _ in range(_PASSES):  # what was cut may have stood between the parts of something else
        cleaned = without_persons(_without_secrets(text, marks))
        if cleaned == text:
            return text
        text = cleaned
    return text


def scrub_all(texts: Sequence[str]) -> list[str]:
    """Clean the texts of a table as :func:`scrub` does. Stacks are made of the same frames again and again: each costs once."""
    whole = "\0".join(texts).lower()
    marks = [mark for mark in _SECRET_MARKS if mark in whole]
    personal = "@" in whole or any(mark in whole for mark in _PERSON_MARKS)
    del whole
    if not marks and not personal:
        return list(texts)

    @cache
    def frame(text: str) -> str:
        return _clean(text, marks)

    # In a URL what follows a semicolon is no frame, but a parameter.
    return [
        ";".join(map(frame, text.split(";"))) if ";" in text and "://" not in text else frame(text) for text in texts
    ]


# ---- quotations

_UNSEEN = regex("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_QUOTED_MOST = 20_000


def excerpt(text: str, most: int) -> str:
    """Make text of somebody's file fit for a message: cleaned, on one line, nothing that steers a terminal, of *most* characters.

    What is longer loses its middle: its end often says what is wrong.
    """
    text = scrub(_ends(text, _QUOTED_MOST))
    if not (text.isascii() and text.isprintable()):
        text = _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
    return _ends(text, most)


def _ends(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[-(most // 3) :]}"


# ---- names of files


def file_names(paths: Sequence[str]) -> list[str]:
    """*paths* as a page or a comment names them, which others are to read: no folder but those that tell two files apart."""
    parts = [_parts(path) for path in paths]
    # Counted by their ends: of thousands of ranks not each is compared with each.
    ends = Counter(own[-count:] for own in set(parts) for count in range(1, len(own) + 1))
    return ["/".join(next((own[-n:] for n in range(1, len(own) + 1) if ends[own[-n:]] == 1), own)) for own in parts]


def folder_name(paths: Sequence[str]) -> str:
    """The name of the folder in which all of several files lie; empty where they share none but a home directory."""
    folders = [_parts(path)[:-1] for path in paths]
    shared = [level[0] for level in takewhile(lambda level: len(set(level)) == 1, zip(*folders, strict=False))]
    return shared[-1] if len(paths) > 1 and shared and shared[-1] not in ("~", ".", "..") else ""


def _parts(path: str) -> tuple[str, ...]:
    path = address(path) if is_url(path) else without_home(path)
    return tuple(part for part in re.split(r"[\\/]+", path) if part) or (path,)


# ---- paths of the source

_PACKAGES = regex(r"^.*?(?:site-packages|dist-packages)/")
STDLIB = regex(r"^(?:.*?/)?lib/python\d(?:\.\d+)?/|^.*?/python\d(?:\.\d+)?/lib/")
# What torch.compile writes: no source of the user's, in a folder that is named after the user.
_GENERATED = regex(r"^(?:.*/)?torchinductor(?:_[^/]*)?/")


def clean_path(path: str) -> str:
    """*path* without home directory, and without everything up to site-packages."""
    path = _without_share(without_secrets(path)).replace("\\", "/")
    if "torchinductor" in path and (generated := _GENERATED.match(path)):
        return "torchinductor/" + path[generated.end() :]
    for prefix in (_PACKAGES, STDLIB):
        shorter = prefix.sub("", path, count=1)
        if shorter != path:
            return shorter
    shorter = _without_home(path)
    return shorter if shorter != path else _SHARE_SLASHED.sub("", path)
