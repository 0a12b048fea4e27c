"""``advisor mcp``: the advisor as a server for agents."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import click

from advisor.cli import completion, options
from advisor.errors import UsageError

TOKEN = "ADVISOR_MCP_TOKEN"


@click.command("mcp", short_help="Serve traces to a coding agent.")
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="DIR",
    shell_complete=completion.folders,
    help="Read files below DIR only, symlinks followed [the working folder].",
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve on 127.0.0.1:PORT, 0 a free one [stdio].",
)
@click.option(
    "--token-file",
    metavar="FILE",
    shell_complete=completion.files,
    help=f"Token that clients send over HTTP [{TOKEN}, else a new one, printed].",
)
@click.option("--allow-write", is_flag=True, help="Let record and fix run programs and write below the roots.")
@click.option("--answer-kb", type=click.IntRange(2, 1000), default=4, help="Longest answer, in kB [4].")
@options.catalogue
def command(
    roots: tuple[str, ...],
    port: int | None,
    token_file: str | None,
    allow_write: bool,
    answer_kb: int,
    catalogue: options.Catalogue,
) -> int:
    """Serve the Model Context Protocol, so that a coding agent can analyze, query and compare traces.

    Over standard input and output by default, or with --http on this machine's loopback, for clients that send the token. Reads
    files below the roots only, and writes nothing without --allow-write. How clients are set up: docs/agents.md.

    \b
      advisor mcp
      advisor mcp --root traces --root baselines
      advisor mcp --http 8765 --token-file ~/.advisor-token
    """
    require_mcp()
    if token_file is not None and port is None:
        raise UsageError("--token-file is for --http; over standard input and output there is no token")
    from advisor.mcp.roots import Roots
    from advisor.mcp.workspace import Workspace

    workspace = Workspace(
        Roots(roots or (".",)),
        config=catalogue.config,
        rules=catalogue.folders,
        allow_write=allow_write,
        most_bytes=answer_kb * 1000,
    )
    if port is None:
        from advisor.mcp.server import serve

        serve(workspace)
        return 0
    from advisor.mcp import http

    given, token = _token(token_file)
    http.check_token(token)
    shown = "" if given else f"\ntoken: {token}"
    http.serve(workspace, port, token, lambda address: click.echo(f"advisor: serving {address}{shown}", err=True))
    return 0


def require_mcp() -> None:
    """Raise ``UsageError`` where the package of the protocol is not installed."""
    # A package of its own, that mcp 2 brings: an older mcp has none, and a folder of the name mcp is no package.
    if find_spec("mcp_types") is None:
        raise UsageError(
            "advisor mcp needs the package mcp, 2.3 or later, which is not installed here: pip install 'mcp>=2.3,<3', or "
            "in a checkout of the advisor pip install '.[agents]'"
        )


def _token(file: str | None) -> tuple[bool, str]:
    """Return whether the user gave the token, and the token: of the file, else of the environment, else a new one."""
    if file is not None:
        try:
            return True, Path(file).expanduser().read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--token-file {file}: {error}") from error
    if token := os.environ.get(TOKEN):
        return True, token
    import secrets

    return False, secrets.token_urlsafe(32)
