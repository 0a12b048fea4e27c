"""One comment on a pull request, renewed at each run: ``comment.py FILE KEY``. It never fails: the gate's answer is the job's.

The environment is that of a GitHub job, with the token in ``TOKEN``. FILE begins with the mark that tells the comment; KEY tells
the comments of several gates of one repository apart. Only what a bot wrote is renewed: anybody may paste the mark.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PAGES = 10
"""Pages of a hundred comments that are looked through."""


def main(file: str, key: str) -> str:
    """Post or renew the comment; return what became of it."""
    with open(os.environ["GITHUB_EVENT_PATH"], encoding="utf-8") as event:
        number = (json.load(event).get("pull_request") or {}).get("number")
    if not isinstance(number, int):
        return "no pull request, no comment"
    body = Path(file).read_text(encoding="utf-8")
    marks = body.split("\n", 1)[0], f"<!-- {re.sub(r'[^A-Za-z0-9.]+', '-', key)} -->"
    comments = f"repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    for page in range(1, PAGES + 1):
        found = call("GET", f"{comments}/{number}/comments?per_page=100&page={page}")
        for comment in found:
            text = comment.get("body") or ""
            if comment["user"]["type"] == "Bot" and text.startswith(marks[0]) and marks[1] in text:
                call("PATCH", f"{comments}/comments/{comment['id']}", f"{body}\n{marks[1]}\n")
                return "comment renewed"
        if len(found) < 100:
            break
    call("POST", f"{comments}/{number}/comments", f"{body}\n{marks[1]}\n")
    return "comment posted"


def call(method: str, path: str, body: str | None = None) -> Any:
    """Ask GitHub; return its answer."""
    request = urllib.request.Request(
        f"{os.environ['GITHUB_API_URL']}/{path}",
        data=None if body is None else json.dumps({"body": body}).encode(),
        method=method,
        headers={"Authorization": f"Bearer {os.environ['TOKEN']}", "Accept": "application/vnd.github+json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def attempt(file: str, key: str) -> str:
    """Post or renew the comment; return a line for the log, a warning where it was refused."""
    try:
        return f"advisor gate: {main(file, key)}"
    except urllib.error.HTTPError as error:
        hint = "; the job needs permissions: pull-requests: write, which a fork does not get"
        why = f"HTTP {error.code}" + hint * (error.code in (401, 403, 404))
    except OSError as error:
        why = type(error).__name__
    return f"::warning title=advisor gate::no comment on the pull request: {why}"


if __name__ == "__main__":
    sys.stdout.write(attempt(*sys.argv[1:]) + "\n")
