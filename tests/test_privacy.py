"""No credential and no person of an address, a path or a trace reaches what is shown, in any format."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.command import command

from advisor import privacy
from advisor.gating.compare import compare
from advisor.pipeline import analyze
from advisor.privacy import clean_path, file_names, folder_name, quoted, scrub, scrub_all, without_secrets
from advisor.reading.remote import message_of, public, shown
from advisor.report import Options, render
from advisor.report import comparison as comparisons
from advisor.report import gate as gates
from advisor.results.judgement import Judgement
from advisor.results.several import Several
from advisor.testing import TraceBuilder
from advisor.trace import read

WORD = st.text(string.ascii_lowercase + string.digits, min_size=8, max_size=12).map("Zq{}".format)
"""A secret, or a part of one: no other text holds it."""
BETWEEN = st.sampled_from(["", "@", "/", ":", "%40", "!", "$", "~", "+", "="])
FEW = settings(max_examples=150, deadline=None)


@st.composite
def addresses(draw: st.DrawFn) -> tuple[str, list[str]]:
    """An address as fsspec takes it, chained or not, and the secrets in it."""
    user, first, second, query = (draw(WORD) for _ in range(4))
    password = first + draw(BETWEEN) + second
    form = draw(
        st.sampled_from(
            [
                "{scheme}://{user}:{password}@host.example:8080/a/x.json",
                "{scheme}://{user}:{password}@bucket/a/x.json?sig={query}",
                "{scheme}://host.example/a/x.json?{query}={user}&b={password}",
                "{scheme}://host.example:9000/x.json?who=me@there&sig={query}{user}{password}",
                "{scheme}://host.example/a/x.json;token={user}{password}#{query}",
                "{scheme}:/{user}:{password}@host.example/x.json",
                "simplecache::{scheme}://{user}:{password}@host/x.json",
                "zip://x.json::{scheme}://{user}:{password}@host/x.zip?{query}",
                "filecache::zip://x.json::{scheme}://host/x.zip?{query}{user}{password}",
            ]
        )
    )
    scheme = draw(st.sampled_from(["http", "https", "s3", "gs", "abfs", "sftp", "tcp", "webdav+https"]))
    text = form.format(scheme=scheme, user=user, password=password, query=query)
    return text, [part for part in (user, first, second, query) if part in text]


@FEW
@given(addresses(), st.sampled_from(["{}", "GET '{}' failed", "see {} for it", "({})", 'url="{}"', "a\n{}\nb"]))
def test_no_form_of_an_address_shows_its_secrets(made: tuple[str, list[str]], around: str) -> None:
    text, secrets = made
    assert secrets
    message = around.format(text)
    for said in (shown(text), public(text), without_secrets(message), scrub(message), quoted(message, text)):
        assert not [secret for secret in secrets if secret in said], said
    assert shown(shown(text)) == shown(text)


@FEW
@given(addresses(), st.sampled_from(["no bucket {}", "{} is no port", "user={}, host=?", "%7B{}%7D"]))
def test_what_a_library_quotes_of_a_secret_is_not_said(made: tuple[str, list[str]], around: str) -> None:
    text, secrets = made
    parts = [part for part in re.split(r"[:/@?#;&=]+", text) if any(secret in part for secret in secrets)]
    for secret in (*parts, *map(unquote, parts)):
        for form in (secret, secret.upper(), f"x{secret}y"):
            assert message_of(ValueError(around.format(form)), text) == "ValueError"
    assert message_of(ValueError("the server is away"), text) == "the server is away"


PLACES = [
    "/home", "/home2", "/homes", "/nfs/homes", "/nethome", "/ihome", "/u", "/afs/cs.example.edu/u", "/mnt/home", "/gpfs/home",
    "/export/home", "/Users", "/mnt/c/Users", "C:\\Users", "D:\\home", "\\\\fs1\\profiles\\Users", "/scratch", "/fsx",
    "/storage/home", "//fs1/home",
]  # fmt: skip


@FEW
@given(
    st.sampled_from(PLACES),
    st.lists(WORD, min_size=1, max_size=3),
    st.sampled_from(["", "/", "/proj/train.py", "/a b/c.py"]),
)
def test_no_form_of_a_home_directory_names_whose_it_is(place: str, names: list[str], rest: str) -> None:
    if place.endswith("/u") or (rest == "" and place not in ("/home", "/Users", "C:\\Users", "D:\\home")):
        names = names[:1]  # elsewhere nobody can tell where a name ends and the text goes on
    separator = "\\" if "\\" in place else "/"
    path = place + separator + " ".join(names) + rest.replace("/", separator)
    texts = [
        clean_path(path),
        scrub(path),
        scrub(f'load "{path}" now'),
        scrub(f"{path}(3): main"),
        scrub(f"file={path}"),
    ]
    if rest:
        texts += [scrub(f"{path} is read"), scrub(f"at {path}; then"), scrub(f"a.py(1): f;{path}(7): g")]
    for text in texts:
        assert not [name for name in names if name in text], text
        assert "fs1" not in text or not place.startswith("\\\\")
        assert scrub(text) == text
    assert texts[0].endswith(rest.rstrip("/").rpartition("/")[2])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\\\\HOST\\share\\train.py(3): main", "train.py(3): main"),
        ("\\\\HOST\\C$\\Users\\alice\\x.py(3): f", "x.py(3): f"),
        ("\\\\?\\C:\\Users\\John Smith\\proj\\x.py(3): f", "proj\\x.py(3): f"),
        ("\\\\?\\UNC\\HOST\\share\\dir\\x.py(3): f", "dir\\x.py(3): f"),
        ("/home/a/alice/train.py", "train.py"),
        ("/afs/cs.example.edu/user/a/al/alice/train.py", "train.py"),
        ("/run/media/alice/disk/train.py", "disk/train.py"),
        ("/home/train.py(3): main", "/home/train.py(3): main"),
        ("path=/home/alice", "path=~"),
        ("mail me at jane.doe@corp.example.com now", "mail me at *** now"),
        ("AWS_SECRET_ACCESS_KEY=abc/def+ghi=", "AWS_SECRET_ACCESS_KEY=***"),
        ("--hf-token abc --num-tokens 5", "--hf-token *** --num-tokens 5"),
        ('{"password": "hunter2", "user": "x"}', '{"password": "***", "user": "x"}'),
        ("Authorization: Bearer abc.def.ghi", "Authorization: ***"),
        ("AccountKey=ab+/c==;x=1", "AccountKey=***;x=1"),
        ("load with hf_abcdEFGH1234ijklMNOP5678qrst now", "load with *** now"),
        ("redis user:hunter2@cache:6379", "redis cache:6379"),
    ],
)
def test_secrets_and_persons_leave_every_text(text: str, left: str) -> None:
    assert scrub(text) == left
    assert scrub(left) == left


@pytest.mark.parametrize(
    "name",
    [
        "num_tokens=4096 tokens: 5 max_token: 20",
        "aten::token_embedding::secret",
        "void foo<Token=3>(Secret::bar)",
        "void at::native::(anonymous namespace)::key_kernel<at::Half, 4>(int, key=2)",
        "memcpy@GLIBC_2.2.5",
        "fn@train.py(3)",
        "nn.Module: TokenEmbedding_0",
        "towers/user/mlp forward",
        "ui/home/feed",
        "train.py(54): get_user_token",
        "ProfilerStep#3",
        "nccl:all_reduce @ stream 7",
    ],
)
def test_names_of_programs_stay_as_they_are(name: str) -> None:
    assert scrub(name) == name


@FEW
@given(st.lists(st.sampled_from([
    "/home/", "a", "\\\\", "\\", "/", "//", ":", "@", "::", "://", "http://", "token=", "secret: ", " ", ";", "?", "***",
    "~", '"', "Users/", ".py(3): f", "x.org", "--password ", "u/", "Bearer abcdefgh",
]), max_size=14))  # fmt: skip
def test_what_is_clean_stays_as_it_is(parts: list[str]) -> None:
    text = "".join(parts)
    assert scrub(scrub(text)) == scrub(text)


def test_a_table_is_cleaned_as_its_texts_are() -> None:
    texts = ["/home/alice/x.py(3): f;/home/alice/y.py(4): g", "token=abc", "aten::add", "see http://a:b@h/x;y=1", ""]
    assert scrub_all(texts) == [scrub(text) for text in texts]
    assert scrub_all(["aten::add", "b"]) == ["aten::add", "b"]


@pytest.mark.parametrize(
    "text",
    ["secret" * 20_000, "/home/a b c " * 10_000, "////" * 30_000 + "home/x", "a@" + "b." * 50_000, "--" * 50_000 + "token",
     "eyJaaaaaaaa-" * 10_000, "\\\\a" * 30_000, "http://a" + "@" * 100_000, "/Users/" + "a " * 50_000, "password=" * 10_000],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_a_hostile_text_costs_one_pass(text: str) -> None:
    assert len(scrub(text)) <= len(text) + 10  # what goes back again and again would not come to this in an hour


def test_a_report_names_no_home_of_the_machine_that_it_was_made_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nfs/home/alice")
    monkeypatch.setenv("USERPROFILE", "/nfs/home/alice")
    assert public("/nfs/home/alice/runs/t.json") == "~/runs/t.json"
    assert public("/Users/bob/runs/t.json") == "runs/t.json"
    assert public("runs/t.json") == "runs/t.json"
    assert public("/data/runs/t.json") == "/data/runs/t.json"


LEAKS = [
    "\\\\SEKRITHOST\\share\\train.py(3): main",
    "/nfs/homes/SEKRITuser/train.py(7): step",
    "/Users/SEKRITfirst SEKRITlast/proj/train.py(9): run",
    "s3://SEKRITkey:SEKRITpw@bucket/x",
    "AWS_SECRET_ACCESS_KEY=SEKRITaws",
    "token=SEKRITtoken",
    "SEKRITjane@corp.example.com",
    "https://host/x?X-Amz-Signature=SEKRITsig",
]


def planted(path: Path) -> Path:
    """A trace with a secret in the name of everything: operators, kernels, modules, annotations, stacks, groups, devices."""
    b = TraceBuilder("gpu token=SEKRITgpu", memory_gb=16, rank=0, world_size=2)
    for _ in range(6):
        with b.step():
            for leak in LEAKS:
                frame = leak if leak.endswith(("main", "step", "run")) else f"{leak}/train.py(5): f"
                with b.python(frame), b.module(f"{leak}_0"), b.op(leak, shapes=[[8, 512]]):
                    b.kernel(leak, us=2_000)
                with b.annotation(leak):
                    b.copy("HtoD", nbytes=19_267_584, us=900)
                    b.item()
    text = b.to_json()
    raw = json.loads(text)
    raw["torch_version"] = raw["pytorch_version"] = "2.1 token=SEKRITversion"
    for event in raw["traceEvents"]:
        event.get("args", {}).update(
            {"Process Group Name": "secret=SEKRITgroup", "Input type": ["password=SEKRITtype"]}
        )
    path.write_text(json.dumps(raw))
    return path


@pytest.mark.parametrize(
    ("paths", "names", "folder"),
    [
        (["/home/alice/secret/trace.json"], ["trace.json"], ""),
        (["~/secret/trace.json"], ["trace.json"], ""),
        (["C:\\Users\\alice\\secret\\trace.json"], ["trace.json"], ""),
        (["-"], ["-"], ""),
        (["s3://bucket/runs/trace.json?sig=abc"], ["trace.json"], ""),
        (["/home/alice/job/rank0.json", "/home/alice/job/rank1.json"], ["rank0.json", "rank1.json"], "job"),
        (["/home/alice/rank0.json", "/home/alice/rank1.json"], ["rank0.json", "rank1.json"], ""),
        (["/data/job/0/t.json", "/data/job/1/t.json"], ["0/t.json", "1/t.json"], "job"),
        (["/data/a/x/t.json", "/data/b/x/t.json", "u.json"], ["a/x/t.json", "b/x/t.json", "u.json"], ""),
        (["t.json", "a/t.json"], ["t.json", "a/t.json"], ""),
        (["/home/alice/t.json", "/home/bob/t.json"], ["t.json", "t.json"], ""),
        ([], [], ""),
    ],
)
def test_files_are_named_by_what_tells_them_apart(paths: list[str], names: list[str], folder: str) -> None:
    assert file_names(paths) == names
    assert folder_name(paths) == folder


TYPED = ("/home/alice/secret/before/trace.json", "/home/alice/secret/after/trace.json")


def test_no_page_or_comment_names_the_folder_that_a_user_typed(tmp_path: Path) -> None:
    """A report is handed on; on the terminal and in JSON, which the next command reads, the path stays."""
    b = TraceBuilder(rank=0, world_size=2)
    for _ in range(3):
        with b.step(), b.op("aten::mm"):
            b.kernel("gemm", us=2_000)
    path = tmp_path / "trace.json"
    b.write(path)
    found = analyze(read(str(path)), views=True, samples=True)
    made = [replace(found, trace=replace(found.trace, path=typed)) for typed in TYPED]
    several = Several(traces=made, across=None)
    gate = Judgement(
        schema_version=1, verdict="passed", headline="As before.", workload="", baseline="b.json", traces=list(TYPED),
        incomparable=[], checks=[], update="",
    )  # fmt: skip
    pages = [
        render("html", made[0]), render("markdown", made[0]), render("html", several), render("markdown", several),
        made[0]._repr_html_().encode(),
        *(render(form, compare(*made), formats=comparisons.FORMATS) for form in ("html", "markdown")),
        render("markdown", gate, formats=gates.FORMATS),
    ]  # fmt: skip
    for page in pages:
        assert b"alice" not in page
        assert b"/secret" not in page
        assert b"secret/" not in page
        assert b"trace.json" in page
    assert b"<title>trace.json \xc2\xb7 advisor</title>" in pages[0]
    assert b"<title>secret: 2 traces" in pages[2]
    assert TYPED[0].encode() in render("text", made[0], Options(verbosity=1))


OUTPUTS = [
    *(("analyze", "t.json", "--views", "-f", form) for form in ("text", "json", "html", "markdown")),
    ("analyze", "t.json", "-v"),
    ("analyze", "t.json", "--redact", "-f", "json"),
    ("compare", "t.json", "t.json", "-f", "json"),
    ("gate", "t.json", "--baseline", "b.json", "-f", "sarif"),
    ("gate", "t.json", "--baseline", "b.json", "-f", "json"),
    ("query", "t.json", "SELECT * FROM kernels", "-f", "csv"),
    ("query", "t.json", "SELECT * FROM ops", "-f", "json"),
    ("query", "t.json", "SELECT * FROM python"),
]


def test_no_output_holds_what_a_trace_says_of_people_and_secrets(tmp_path: Path) -> None:
    planted(tmp_path / "t.json")
    files = [("baseline", "t.json", "-o", "b.json"), ("export", "t.json", "-o", "e.json")]
    for words in (*files, *OUTPUTS):
        done = command(*words, cwd=tmp_path)
        assert done.returncode in (0, 4), (words, done.stderr)
        assert "SEKRIT" not in done.stdout + done.stderr, (words, re.findall(r".{60}SEKRIT.{20}", done.stdout))
    for name in ("b.json", "e.json"):
        assert "SEKRIT" not in (tmp_path / name).read_text(), name
    assert "train.py" in (tmp_path / "e.json").read_text()


def test_a_bug_and_a_note_show_no_secret_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("GET https://me:SEKRITpw@host/x?sig=SEKRITsig")

    monkeypatch.setattr("advisor.execution.inputs.find", fails)
    done = command("analyze", "t.json", cwd=tmp_path)
    assert done.returncode == 70
    assert "RuntimeError: GET https://host/x" in done.stderr
    assert "SEKRIT" not in done.stderr


@pytest.mark.parametrize("scheduler", ["tcp://me:SEKRITpw@127.0.0.1:9", "me:SEKRITpw@127.0.0.1:9", "reference://x", ""])
def test_a_scheduler_that_is_none_is_named_without_its_secrets(scheduler: str, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    TraceBuilder().write(tmp_path / "t.json")
    done = command("analyze", "t.json", "--scheduler", scheduler, cwd=tmp_path)
    assert done.returncode == 2
    assert "no Dask scheduler answers" in done.stderr
    assert "Traceback" not in done.stderr
    assert "SEKRIT" not in done.stderr
    assert privacy.HIDDEN not in done.stderr
