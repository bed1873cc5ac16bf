"""The append: whole, in order, and with `within` never to anything outside, whatever path is named."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hivesub.errors import AppendError
from hivesub.system.appendfile import append_whole, resolved_within


@given(st.lists(st.binary(max_size=5000), max_size=8))
def test_what_is_appended_stands_there_whole_and_in_order(pieces: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = os.path.join(name, "report.md")
        for piece in pieces:
            append_whole(path, piece)
        written = Path(path).read_bytes() if pieces else b""
    expected = b""
    for piece in pieces:
        expected += (b"\n" if expected and not expected.endswith(b"\n") else b"") + piece
    assert written == expected


NAMES = [
    "a", "file", "new", "..", ".", "", "out", "link-in", "link-out", "link-file-out", "link-loop", "link-new-out",
    "link-up", "fifo", "secret", "nul\0", "\udcff",
]  # fmt: skip


@contextmanager
def _world() -> Iterator[tuple[Path, Path]]:
    """A subagent's directory and one beside it, with links of every kind from the one into the other."""
    with tempfile.TemporaryDirectory() as name:
        inside, out = Path(name, "dir"), Path(name, "out")
        for folder in (inside / "a", out / "a"):
            folder.mkdir(parents=True)
            for directory in (folder, folder.parent):
                (directory / "file").write_bytes(b"old\n")
        (out / "secret").write_bytes(b"old\n")
        for directory in (inside, inside / "a"):
            (directory / "link-in").symlink_to(inside / "a")
            (directory / "link-out").symlink_to(out)
            (directory / "link-file-out").symlink_to(out / "secret")
            (directory / "link-new-out").symlink_to(out / "made-up")
            (directory / "link-loop").symlink_to("link-loop")
            (directory / "link-up").symlink_to("..")
        os.mkfifo(inside / "fifo")
        yield inside, out


def _files(root: Path) -> dict[str, bytes]:
    return {
        os.path.join(folder, name): Path(folder, name).read_bytes()
        for folder, _, names in os.walk(root)
        for name in names
        if Path(folder, name).is_file() and not Path(folder, name).is_symlink()
    }


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6), st.booleans(), st.binary(min_size=1, max_size=50))
def test_a_path_that_has_to_lie_within_a_directory_never_leads_out_of_it(
    parts: list[str], absolute: bool, data: bytes
) -> None:
    with _world() as (inside, out):
        path = os.path.join(inside, *parts) if absolute else "/".join([str(inside), *parts])
        outside, before = _files(out), _files(inside)
        try:
            append_whole(path, data, within=str(inside))
        except AppendError as error:
            str(error).encode()
            changed: dict[str, bytes] = {}
            assert _files(inside) == before
        else:
            changed = {name: text for name, text in _files(inside).items() if before.get(name) != text}
            (only,) = changed
            assert changed[only] == before.get(only, b"") + data
            assert only == resolved_within(path, str(inside))
        assert _files(out) == outside
