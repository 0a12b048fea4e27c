"""The format of a file by its first bytes: those that are read, and those that another tool reads, by name."""

from __future__ import annotations

from advisor.errors import TraceError
from advisor.reading import packets

# Formats that another tool reads or makes readable, and files that people hand over by mistake, by their first bytes.
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive. Unpack it and pass the .json or .json.gz inside"),
    (b"\x28\xb5\x2f\xfd", "zstd compressed. Decompress it first: zstd -d"),
    (b"BZh", "bzip2 compressed. Decompress it first: bunzip2"),
    (b"\xfd7zXZ", "xz compressed. Decompress it first: unxz"),
    (b"\xff\xfe", "UTF-16 text, as some shells write when output is redirected. Save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text, as some shells write when output is redirected. Save it as UTF-8"),
    (b"\x7fELF", "a program. advisor reads what torch.profiler writes"),
    (b"<", "XML or HTML. advisor reads what torch.profiler writes"),
)
# Formats that their first bytes do not tell for sure, by the end of the file's name as well.
_NAMED = (
    (".xplane.pb", "an XPlane profile, as JAX and PyTorch/XLA write it. xprof reads it: pip install xprof"),
    (".nsys-rep", "a report of Nsight Systems. Export it: nsys export --type sqlite, and pass the .sqlite"),
    (".qdrep", "a report of Nsight Systems. Export it: nsys export --type sqlite, and pass the .sqlite"),
    (".ncu-rep", "a report of Nsight Compute. ncu-ui and ncu --import read it"),
    (".rpd", "a recording of rocmProfileData. Its rpd2tracing.py makes JSON of it"),
    (".otf2", "an OTF2 trace. Vampir reads it; rocprofv3 writes JSON too: --output-format json"),
)
_TAR = (".tar", ".tgz", ".tar.gz")
_ENOUGH = 1 << 16
_NEAR = 1 << 12


def of(path: str, head: bytes) -> str:
    """Return the format of a file that begins with *head*: pftrace, sqlite, rocprof, pickle; empty for a trace as JSON.

    Raises TraceError on a foreign one.
    """
    for magic, what in _FOREIGN:
        if head.startswith(magic):
            raise TraceError(f"{path}: is {what}.")
    if head.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "pickle"
    text = head.lstrip().startswith((b"{", b"[")) or head.startswith(b"\xef\xbb\xbf")
    name = path.lower().removesuffix(".gz")
    if not text or b"\0" in head[:_ENOUGH]:
        for suffix, what in _NAMED:
            if name.endswith(suffix):
                raise TraceError(f"{path}: is {what}.")
        if head[257:262] == b"ustar" or (not text and path.lower().endswith(_TAR)):
            raise TraceError(f"{path}: is a tar archive. Unpack it (tar xf) and pass the .json or .json.gz inside.")
    if text and b'"rocprofiler-sdk-tool"' in head[:_NEAR]:
        return "rocprof"
    return "pftrace" if _is_pftrace(head, text=text) else ""


def _is_pftrace(head: bytes, *, text: bool) -> bool:
    """Tell whether packets of a Perfetto trace follow one another from the beginning, or soon behind a damaged one."""
    if packets.follows(head, 0, last=True) and not text:
        return True
    if text and head[:1] != b"\n":
        return False
    if text:  # a newline before JSON reads as the tag of a packet
        return b"\0" in head[:_ENOUGH] and packets.follows(head, 0, last=False, proof=8)
    return b"\0" in head[:_ENOUGH] and packets.found_early(head)
