"""Reading and analysis on a Dask cluster and from object storage: real servers and workers, started here as processes."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.command import Commands, command
from support.paths import ROOT

from advisor.testing import TraceBuilder

GPU = "NVIDIA A100-SXM4-80GB"
PACKAGES = ("distributed", "fsspec", "s3fs", "moto", "flask")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
RANKS, PATIENCE_S = 6, 60.0
Analyze = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _packages() -> None:
    if MISSING:
        why = f"not installed: {', '.join(MISSING)}; pip install -e '.[dev]'"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)


def rank(number: int, count: int = RANKS, steps: int = 4) -> TraceBuilder:
    """A rank that takes part in an all-reduce in each step; rank 2 comes 10 ms late."""
    late = 10_000 if number == 2 else 0
    b = TraceBuilder(GPU, rank=number, world_size=count)
    for step in range(steps):
        with b.step():
            b.kernel("ampere_sgemm_128x64_tn", us=50_000 + late - 200, at_us=step * 100_000 + 200)
            b.collective("all_reduce", 4_000_000, us=11_000 - late, at_us=step * 100_000 + 50_000 + late)
            b.seek((step + 1) * 100_000)
    return b


@contextmanager
def process(*command: str, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is gone when the block is left."""
    with log.open("wb") as out:
        running = subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=log.parent)
        try:
            yield running
        finally:
            running.kill()
            running.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def until(true: Any, what: str) -> Any:
    """What *true* returns once it is something."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.05)
    pytest.fail(f"waited {PATIENCE_S:.0f} s for {what}")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def environment(place: Path) -> Iterator[dict[str, str]]:
    """An environment that knows the S3 server on this machine, and no credentials but the server's."""
    if MISSING:
        yield {}
        return
    port = free_port()
    made = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "DASK_"))}
    made |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    server = (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port))
    with process(*server, environment=made, log=place / "s3.log"):

        def answers() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=1) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        until(answers, "the S3 server")
        yield made


@contextmanager
def workers(place: Path, environment: dict[str, str], address: str, *names: str) -> Iterator[list[Any]]:
    """Processes that work for the scheduler at *address*."""
    worker = (sys.executable, "-m", "dask", "worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard")
    with ExitStack() as running:
        yield [
            running.enter_context(
                process(
                    *worker,
                    "--local-directory",
                    str(place),
                    "--name",
                    name,
                    environment=environment,
                    log=place / f"{name}.log",
                )
            )
            for name in names
        ]


def _open(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def cluster(place: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of a scheduler with two workers."""
    if MISSING:
        yield ""
        return
    port = free_port()
    scheduler = (sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", str(port))
    options = ("--no-dashboard", "--no-show")
    with process(*scheduler, *options, environment=environment, log=place / "scheduler.log"):
        until(lambda: _open(port), "the scheduler")
        address = f"tcp://127.0.0.1:{port}"
        with workers(place, environment, address, "w0", "w1"):
            yield address


@pytest.fixture(scope="module")
def folder(place: Path) -> Path:
    made = place / "run"
    made.mkdir()
    for number in range(RANKS):
        rank(number).write(made / f"rank{number}.json.gz")
    return made


@pytest.fixture(scope="module")
def bucket(environment: dict[str, str], folder: Path) -> str:
    """The folder, uploaded."""
    if MISSING:
        return ""
    address = f"{environment['AWS_ENDPOINT_URL']}/traces"
    for path, content in [("", b""), *((f"/run/{file.name}", file.read_bytes()) for file in folder.iterdir())]:
        kind = {"Content-Type": "application/octet-stream"}
        asked = urllib.request.Request(address + path, content, kind, method="PUT")
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            assert answer.status == 200
    return "s3://traces/run"


@pytest.fixture(scope="module")
def analyze(environment: dict[str, str], place: Path) -> Iterator[Analyze]:
    """The command ``advisor analyze``, in a process that knows the S3 server: what is tested is at its other ends."""
    with Commands(environment, place) as commands:
        yield lambda *arguments: commands.run("analyze", *arguments)


@pytest.fixture(scope="module")
def alone(folder: Path) -> subprocess.CompletedProcess[str]:
    """The folder's report, all of it by one process."""
    return command("analyze", str(folder), "-f", "json", "--jobs", "1", cwd=folder)


@pytest.fixture(scope="module", autouse=True)
def unanswered(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A command that waits for a scheduler where none is; it runs beside all other tests, for it waits 15 seconds."""
    command = [sys.executable, "-m", "advisor", "analyze", "none.json", "--scheduler", f"tcp://127.0.0.1:{free_port()}"]
    with subprocess.Popen(
        command, env=environment or None, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as waiting:
        yield waiting
        waiting.kill()


def report(done: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def nameless(found: dict[str, Any]) -> dict[str, Any]:
    """The same report, without where its traces lay."""
    for row in [*(one["trace"] for one in found["traces"]), *found["across"]["ranks"]]:
        row["path"] = row["path"].rpartition("/")[2]
    return found


def test_a_cluster_finds_what_one_process_finds(
    cluster: str, analyze: Analyze, folder: Path, alone: subprocess.CompletedProcess[str]
) -> None:
    there = analyze(str(folder), "-f", "json", "--scheduler", cluster)
    assert report(there) == report(alone)
    assert there.stdout == alone.stdout
    assert [one["rule"] for one in report(there)["across"]["findings"]][:1] == ["distributed/straggler"]
    assert len(report(there)["traces"]) == RANKS


def test_a_pool_finds_what_one_process_finds(folder: Path, alone: subprocess.CompletedProcess[str]) -> None:
    assert command("analyze", str(folder), "-f", "json", "--jobs", "3", cwd=folder).stdout == alone.stdout


@pytest.mark.study
@pytest.mark.parametrize("form", ["/", "/*.json.gz"])
def test_object_storage_is_read_like_a_folder(
    form: str, bucket: str, analyze: Analyze, alone: subprocess.CompletedProcess[str]
) -> None:
    there = report(analyze(f"{bucket}{form}", "-f", "json"))
    assert nameless(there) == nameless(report(alone))


def test_one_trace_of_object_storage_is_read(bucket: str, analyze: Analyze) -> None:
    one = report(analyze(f"{bucket}/rank3.json.gz", "-f", "json"))
    assert one["trace"]["path"] == "s3://traces/run/rank3.json.gz"
    assert one["trace"]["rank"] == 3


def test_a_cluster_reads_object_storage(
    cluster: str, bucket: str, analyze: Analyze, alone: subprocess.CompletedProcess[str]
) -> None:
    there = report(analyze(f"{bucket}/*.json.gz", "-f", "json", "--scheduler", cluster))
    assert nameless(there) == nameless(report(alone))


def test_one_bad_file_is_reported_and_the_rest_analyzed(
    cluster: str, analyze: Analyze, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "bad")
    (tmp_path / "bad" / "rank5.json.gz").write_bytes(b"\x1f\x8b" + bytes(60))
    done = analyze(str(tmp_path / "bad"), "-f", "json", "--scheduler", cluster)
    found = report(done, 3)
    assert [row["rank"] for row in found["across"]["ranks"]] == [0, 1, 2, 3, 4]
    assert done.stderr.count("rank5.json.gz") == 1
    assert "gzip" in done.stderr


def test_what_is_not_there_is_said(
    cluster: str, bucket: str, analyze: Analyze, unanswered: subprocess.Popen[str]
) -> None:
    missing = analyze(f"{bucket}/none.json", "--scheduler", cluster)
    assert (missing.returncode, missing.stderr) == (3, "advisor: error: s3://traces/run/none.json: no such file\n")
    nothing = analyze(f"{bucket}/none/*.json")
    assert (nothing.returncode, "holds no traces" in nothing.stderr) == (3, True)
    _, said = unanswered.communicate(timeout=PATIENCE_S)
    assert (unanswered.returncode, "no Dask scheduler answers" in said) == (2, True), said


@pytest.mark.parametrize(("count", "steps"), [pytest.param(10, 150, marks=pytest.mark.study)])
def test_a_worker_killed_in_the_middle_loses_nothing(
    count: int, steps: int, place: Path, environment: dict[str, str], cluster: str, tmp_path: Path
) -> None:
    """Rank after rank on three workers; one is killed with a rank in its hands. The report is as if nothing had been."""
    import distributed

    for number in range(count):
        rank(number, count, steps=steps).write(tmp_path / f"rank{number}.json")
    words = ["analyze", str(tmp_path), "-f", "json", "--only", "distributed/*"]
    here = command(*words, "--jobs", "1", cwd=tmp_path)
    name = f"victim-{count}"
    with workers(place, environment, cluster, name) as (worker,), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.Client(cluster, timeout=30, set_as_default=False) as client:
            client.wait_for_workers(3, timeout=PATIENCE_S)
            running = subprocess.Popen(
                [sys.executable, "-m", "advisor", *words, "--scheduler", cluster],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            known = client.scheduler_info()["workers"]
            (victim,) = (address for address, one in known.items() if one["name"] == name)
            seen: set[str] = set()

            def busy() -> bool:
                """Tell whether the worker has done a rank and is at another."""
                at = {str(key) for key in client.processing([victim])[victim] if str(key).startswith("work-")}
                seen.update(at)
                return bool(at) and len(seen - at) > 0

            until(busy, "the worker to be in the middle of its work")
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        out, errors = running.communicate(timeout=300)
    assert running.returncode == 0, errors
    assert out == here.stdout
    assert len(json.loads(out)["traces"]) == count


def test_without_the_packages_the_command_to_install_them_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("distributed", "fsspec"):
        monkeypatch.setitem(sys.modules, name, None)
    for words in ([str(folder), "--scheduler", "tcp://127.0.0.1:1"], ["s3://traces/x.json"]):
        done = command("analyze", *words, cwd=folder)
        assert done.returncode == 2, done.stderr
        assert "pip install '.[cluster]'" in done.stderr


def test_secrets_of_an_address_are_not_shown(analyze: Analyze) -> None:
    """A user and password, and the query of a signed URL, in an error and in a report."""
    port = free_port()
    done = analyze(f"http://me:hunter2@127.0.0.1:{port}/rank0.json?token=abc123")
    assert done.returncode == 3
    assert f"http://127.0.0.1:{port}/rank0.json" in done.stderr
    assert not [secret for secret in ("hunter2", "abc123", "me:") if secret in done.stderr]


def test_a_file_on_a_web_server_is_streamed(
    analyze: Analyze, environment: dict[str, str], folder: Path, place: Path
) -> None:
    """A signed URL: its query goes to the server, and into no report; a user and a password go nowhere else either."""
    port = free_port()
    server = (sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder))
    with process(*server, environment=environment, log=place / "web.log"):
        until(lambda: _open(port), "the web server")
        done = analyze(f"http://me:hunter2@127.0.0.1:{port}/rank3.json.gz?token=abc123", "-f", "json")
    assert report(done)["trace"]["path"] == f"http://127.0.0.1:{port}/rank3.json.gz"
    assert "/rank3.json.gz?token=abc123" in (place / "web.log").read_text()
    assert not [secret for secret in ("hunter2", "abc123") if secret in done.stdout + done.stderr]
