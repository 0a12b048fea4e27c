"""The server as clients meet it: both transports, many sessions, and clients that misbehave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from support import agents

agents.installed()

SAMPLES = agents.ROOT / "sample_traces"
TRACE, AFTER = "article/rung0_baseline.json.gz", "article/rung1_workers.json.gz"
CALLS: dict[str, dict[str, Any]] = {
    "analyze": {"trace": TRACE},
    "explain": {"trace": TRACE, "finding": "1"},
    "query": {"trace": TRACE, "sql": "SELECT count(*) FROM kernels"},
    "timeline": {"trace": TRACE, "step": 0},
    "compare": {"before": TRACE, "after": AFTER},
    "what_if": {"trace": TRACE, "rules": ["1"]},
    "limits": {"trace": TRACE},
    "gate": {"traces": [TRACE], "baseline": "b.json"},
    "history": {"store": "history"},
    "fix": {"trace": TRACE},
    "record": {"script": "quiet.py", "output": "new.json.gz"},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with two traces, a baseline, and a script."""
    from click.testing import CliRunner

    from advisor.cli import main

    folder = tmp_path_factory.mktemp("root")
    (folder / "article").symlink_to(SAMPLES / "article")
    made = CliRunner().invoke(main, ["baseline", str(SAMPLES / TRACE), "-o", str(folder / "b.json")])
    assert made.exit_code == 0, made.stderr
    store = ["--store", str(folder / "history"), "--commit", "c1", "--branch", "main"]
    made = CliRunner().invoke(main, ["history", "add", str(folder / "b.json"), *store])
    assert made.exit_code == 0, made.stderr
    (folder / "quiet.py").write_text("pass\n")
    return folder


@pytest.fixture(scope="module")
def address(root: Path) -> Any:
    """A server over HTTP that all tests share."""
    with agents.http_server("--root", str(root), "--root", str(SAMPLES), "--allow-write") as found:
        yield found


async def all_of_it(client: Any) -> None:
    """List everything, call every tool, read every resource, get every prompt."""
    listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == list(CALLS)
    for tool in listed.tools:
        assert tool.annotations.read_only_hint is (tool.name not in ("fix", "record"))
        result = await client.call_tool(tool.name, CALLS[tool.name])
        text = agents.text_of(result)
        assert not result.is_error, (tool.name, text)
        assert len(text.encode()) <= 4000
    for resource in (await client.list_resources()).resources:
        (content,) = (await client.read_resource(resource.uri)).contents
        assert 500 < len(content.text.encode()) <= 4000
    assert len((await client.list_resource_templates()).resource_templates) == 2
    (frame,) = (await client.read_resource("advisor://frames/gaps")).contents
    assert "why: startup, loader, sync" in frame.text
    (rule,) = (await client.read_resource("advisor://catalogue/transfer/pageable-copy")).contents
    assert "fix: " in rule.text
    for prompt in (await client.list_prompts()).prompts:
        values = {argument.name: f"the-{argument.name}" for argument in prompt.arguments}
        got = await client.get_prompt(prompt.name, values)
        assert all(value in got.messages[0].content.text for value in values.values())


def test_a_client_over_stdio_calls_every_tool(root: Path) -> None:
    async def test() -> None:
        options = ("--root", str(root), "--root", str(SAMPLES), "--allow-write")
        async with agents.over_stdio(*options) as client:
            await all_of_it(client)

    agents.run(test)


def test_a_client_over_http_calls_every_tool(address: str) -> None:
    async def test() -> None:
        async with agents.over_http(address) as client:
            await all_of_it(client)

    agents.run(test)


def test_twenty_sessions_at_once(address: str) -> None:
    answers: list[str] = []

    async def session() -> None:
        async with agents.over_http(address) as client:
            await started.wait()
            got = [await client.call_tool(name, CALLS[name]) for name in ("analyze", "explain", "query")]
            answers.extend(map(agents.text_of, got))

    async def test() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(session)
            started.set()

    started = anyio.Event()
    agents.run(test)
    assert len(answers) == 60
    assert len(set(answers)) == 3


@pytest.mark.parametrize("token", [None, "x", agents.TOKEN[:-1], agents.TOKEN + "x", "é" * 20])
def test_http_without_the_token_is_refused(address: str, token: str | None) -> None:
    import httpx2

    headers = {} if token is None else {"Authorization": f"Bearer {token}".encode()}
    for path in ("/mcp", "/", "/anything"):
        answer = httpx2.post(address.removesuffix("/mcp") + path, json={}, headers=headers)
        assert answer.status_code == 401
        assert "Bearer TOKEN" in answer.text
        assert agents.TOKEN not in answer.text


def test_http_from_another_origin_or_host_is_refused(address: str) -> None:
    import httpx2

    good = {"Authorization": f"Bearer {agents.TOKEN}", "Accept": "application/json, text/event-stream"}
    for more in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
        assert httpx2.post(address, json={}, headers=good | more).status_code in (403, 421)


def test_http_listens_on_loopback_alone(address: str) -> None:
    port = f"{int(address.rpartition(':')[2].partition('/')[0]):04X}"
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    own = {fields[1] for fields in listening if fields[1].endswith(f":{port}") and fields[3] == "0A"}
    assert own == {f"0100007F:{port}"}


def test_oversized_and_malformed_requests_over_http(address: str) -> None:
    import httpx2

    good = {"Authorization": f"Bearer {agents.TOKEN}", "Accept": "application/json, text/event-stream"}
    big = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"x": "a" * 2_000_000}}
    assert httpx2.post(address, json=big, headers=good).status_code == 413
    for body in (b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"jsonrpc":"2.0"}', b"[" * 100_000):
        answer = httpx2.post(address, content=body, headers=good | {"Content-Type": "application/json"})
        assert 400 <= answer.status_code < 500, (body, answer.status_code)

    async def test() -> None:  # and it goes on
        async with agents.over_http(address) as client:
            assert len((await client.list_tools()).tools) == len(CALLS)

    agents.run(test)


# ---- stdio, by hand


class Wire:
    """A server over stdio that is spoken to line by line."""

    def __init__(self, *options: str) -> None:
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(agents.command(*options), env=agents.environment(), **pipes)
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        assert self.ask("initialize", hello)["result"]["serverInfo"]["name"] == "advisor"
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode())

    def send(self, line: bytes) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any], number: int = 7) -> dict[str, Any]:
        """Send a request, and read on to its answer."""
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == number:
                return message
        raise AssertionError("the server went away")

    def close(self) -> int:
        """Close its input, and wait for it to end."""
        _, errors = self.process.communicate(timeout=60)
        assert b"Traceback" not in errors, errors.decode()
        return self.process.returncode


def test_malformed_messages_do_not_end_a_session(root: Path) -> None:
    wire = Wire("--root", str(root), "--root", str(SAMPLES))
    for line in (
        b"", b"{", b"[]", b"nonsense", b"\xff\xfe\x00", b'{"jsonrpc":"2.0","id":1}', b'{"jsonrpc":"1.0","method":"x"}',
        b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}', b"[" * 50_000, b'"' + b"x" * 3_000_000 + b'"',
        b'{"jsonrpc":"2.0","id":null,"method":"tools/call","params":[]}',
    ):  # fmt: skip
        wire.send(line)
    assert "error" in wire.ask("no/such/method", {}, 11)
    assert "error" in wire.ask("tools/call", {"name": 3}, 12)
    assert "error" in wire.ask("resources/read", {"uri": "advisor://frames/none"}, 13)
    assert "error" in wire.ask("prompts/get", {"name": "faster"}, 14)
    huge = wire.ask("tools/call", {"name": "query", "arguments": {"trace": TRACE, "sql": "x" * 5_000_000}}, 15)[
        "result"
    ]
    assert huge["isError"]
    assert "too long" in huge["content"][0]["text"]
    good = wire.ask("tools/call", {"name": "query", "arguments": CALLS["query"]}, 16)["result"]
    assert not good.get("isError")
    assert wire.close() == 0


def test_the_server_ends_with_a_client_that_is_killed(root: Path) -> None:
    """A client that starts a server and is killed in the middle of a call leaves no process behind."""
    command = agents.command("--root", str(root), "--root", str(SAMPLES))
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    program = f"""
import subprocess, json
server = subprocess.Popen({command!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def send(**message):
    server.stdin.write(json.dumps({{"jsonrpc": "2.0", **message}}).encode() + b"\\n")
    server.stdin.flush()
send(id=1, method="initialize", params={params!r})
server.stdout.readline()
send(id=2, method="tools/call", params={{"name": "analyze", "arguments": {CALLS["analyze"]!r}}})
print(server.pid, flush=True)
server.wait()
"""
    client = subprocess.Popen(
        [sys.executable, "-c", program], env=agents.environment(), stdout=subprocess.PIPE, text=True
    )
    assert client.stdout is not None
    server = int(client.stdout.readline())
    client.send_signal(signal.SIGKILL)
    client.wait()
    client.stdout.close()

    async def gone() -> None:
        with anyio.fail_after(60):
            while Path(f"/proc/{server}/stat").exists() and Path(f"/proc/{server}/stat").read_text().split()[2] != "Z":
                await anyio.sleep(0.1)

    agents.run(gone)


def test_an_http_client_that_is_killed_takes_nothing_with_it(address: str) -> None:
    import socket

    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "compare", "arguments": CALLS["compare"]},
    }
    body = json.dumps(call).encode()
    host, port = address.removeprefix("http://").removesuffix("/mcp").split(":")
    head = [
        "POST /mcp HTTP/1.1", f"Host: {host}:{port}", f"Authorization: Bearer {agents.TOKEN}", "Content-Type: application/json",
        "Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2025-06-18", f"Content-Length: {len(body)}", "", "",
    ]  # fmt: skip
    for sent in (body, body[:20]):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall("\r\n".join(head).encode() + sent)

    async def test() -> None:
        async with agents.over_http(address) as client:
            assert not (await client.call_tool("explain", CALLS["explain"])).is_error

    agents.run(test)


def test_pandas_and_duckdb_load_on_the_first_call(tmp_path: Path) -> None:
    program = f"""
import sys, anyio
from mcp import Client
from advisor.mcp.roots import Roots
from advisor.mcp.server import build
from advisor.mcp.workspace import Workspace
HEAVY = {{"pandas", "duckdb", "numpy", "jinja2", "torch", "uvicorn"}}
async def main():
    async with Client(build(Workspace(Roots([{str(SAMPLES)!r}]))), mode="legacy") as client:
        tools = (await client.list_tools()).tools
        await client.list_resources(); await client.list_prompts()
        before = HEAVY & set(sys.modules)
        await client.call_tool("query", {CALLS["query"]!r})
        print(len(tools), sorted(before), sorted({{"pandas", "duckdb"}} & set(sys.modules)))
anyio.run(main)
"""
    # uvicorn is a module that the protocol's own package imports where it is asked for its client.
    done = subprocess.run(
        [sys.executable, "-c", program], env=agents.environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() in ("10 [] ['duckdb', 'pandas']", "10 ['uvicorn'] ['duckdb', 'pandas']"), done.stdout


# ---- the command


def test_the_command_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from advisor.cli import main

    monkeypatch.delenv("ADVISOR_MCP_TOKEN", raising=False)
    short = tmp_path / "token"
    short.write_text("short\n")
    for arguments, says in (
        (["--root", str(tmp_path / "none")], "no such folder"),
        (["--token-file", str(short)], "--token-file is for --http"),
        (["--http", "0", "--token-file", str(short)], "needs 16 printable ASCII characters"),
        (["--http", "0", "--token-file", str(tmp_path / "none")], "No such file"),
    ):
        result = CliRunner().invoke(main, ["mcp", *arguments])
        assert result.exit_code == 2
        assert says in result.stderr


def test_a_new_token_is_printed_where_none_is_given(tmp_path: Path) -> None:
    environment = {name: value for name, value in agents.environment().items() if name != "ADVISOR_MCP_TOKEN"}
    command = agents.command("--http", "0", "--root", str(tmp_path))
    # A shell that runs tests in the background has them, and what they start, ignore the signal.
    ends = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, ends)
    assert process.stderr is not None
    lines = [process.stderr.readline(), process.stderr.readline()]
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert lines[0].startswith("advisor: serving http://127.0.0.1:")
    assert len(lines[1].removeprefix("token: ").strip()) >= 32
