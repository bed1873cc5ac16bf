"""The stream: whatever comes is life, nothing is fatal, memory is bounded and texts are exact."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import treq

from hivesub.standin import write_wrapper
from tests.faults.clocked import INIT, RESULT, ClockedCase
from tests.support.world import BOUND_S, World, quoted, world

ODD = {
    "a banner": b"Welcome to the CLI!\n",
    "a blank line": b"\n",
    "CRLF": b'{"type":"assistant","message":{"content":"hm"}}\r\n',
    "a BOM": b'\xef\xbb\xbf{"type":"assistant","message":{}}\n',
    "broken JSON": b'{broken "result"\n',
    "an array": b'["result"]\n',
    "null": b"null\n",
    "a number": b"42\n",
    "an unknown type": b'{"type":"from_the_future","of":"system"}\n',
    "content as a string": b'{"type":"user","message":{"content":"interrupted by user"}}\n',
    "content as a dict": b'{"type":"user","message":{"content":{"text":"interrupted by user"}}}\n',
    "content as null": b'{"type":"user","message":{"content":null},"note":"interrupted by user"}\n',
    "a system event of odd parts": b'{"type":"system","subtype":"background_tasks_changed","tasks":{"a":1}}\n',
    "bytes that are no UTF-8": b'\xff\xfe "result" \x80\n',
}


class OnAClock(ClockedCase):
    def test_each_kind_of_line_counts_as_life_and_none_is_fatal(self) -> None:
        child = self.start()
        for kind, line in ODD.items():
            self.pass_s(5)
            self.assertGreater(self.record()["last_event_age_s"], 4, kind)
            child.out(line)
            self.assertEqual((self.record()["state"], self.record()["last_event_age_s"]), ("running", 0), kind)
        child.out(INIT + RESULT)
        child.exit()
        self.assertEqual(self.record()["last_turn"]["outcome"], "finished")


async def test_odd_lines_from_a_real_child_harm_nothing(shared: World, name: str) -> None:
    record = await shared.run(name, *(f"stdout hex:{line.hex()}" for line in ODD.values()), "text done")
    assert (record["state"], record["last_turn"]["outcome"]) == ("idle", "finished")
    assert not shared.tracebacks()


async def test_a_line_of_20_mb_and_100_000_of_1_kb_are_counted_in_bounded_memory_and_the_result_is_seen(
    shared: World, name: str
) -> None:
    await shared.run(f"{name[:50]}-warm", "line 100000")
    counted = await counted_bytes(shared)
    before = high_water_bytes(shared.daemon.pid)
    record = await shared.run(name, "line 20000000", "flood 100000 1000", "result all of it")
    assert record["last_turn"]["outcome"] == "finished"
    assert (await shared.agent.record(name, result=True))["result"] == "all of it"
    # Of the line 8 MiB are kept at most.
    assert high_water_bytes(shared.daemon.pid) - before < 18_000_000
    assert await counted_bytes(shared) - counted >= 20_000_000 + 100_000 * 1000


async def counted_bytes(world: World) -> float:
    """How much a daemon says that its children have written."""
    answer = await treq.get(f"{world.daemon.url}/metrics", persistent=False, timeout=BOUND_S)
    found = re.search(r"^hivesub_read_bytes_total (\S+)$", await answer.text(), re.MULTILINE)
    assert found
    return float(found[1])


def high_water_bytes(pid: int) -> int:
    """The most memory that a process ever held."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


async def test_a_text_that_comes_byte_by_byte_is_exact(shared: World, name: str) -> None:
    said = "Grüße, 漢字, 🎉, \u2028 and ÿ"
    event = json.dumps({"type": "result", "is_error": False, "result": said}, ensure_ascii=False) + "\n"
    await shared.run(name, *(f"stdout hex:{byte:02x}" for byte in event.encode()), "no-result")
    assert (await shared.agent.record(name, result=True))["result"] == said


async def test_half_a_surrogate_pair_reaches_no_answer_and_no_file_as_such(shared: World, name: str) -> None:
    report = shared.dir / f"{name}.md"
    failed = r'{"type":"result","is_error":true,"subtype":"error_x","errors":["b\u00e9 \ud83d!"],"result":"r \ud83d"}'
    record = await shared.run(name, f"stdout {failed}", "exit 1", report_file=str(report))
    assert record["state"] == "failed"
    assert "bé " in record["last_turn"]["detail"]
    (await shared.agent.record(name, result=True))["result"].encode()
    todo = await shared.todo(name)  # read as strict UTF-8
    assert "bé " in todo["body"]
    assert "bé " in report.read_bytes().decode("utf-8")


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A daemon whose claude is the stand-in after 1 MB on stderr."""
    root = tmp_path_factory.mktemp("loud")
    standin = write_wrapper(root / "standin")
    claude = root / "claude"
    say = "head -c 1000000 /dev/zero | tr '\\0' x >&2; echo the last words >&2"
    claude.write_text(f'#!/bin/sh\ncase "$1" in -p) {say};; esac\nexec {quoted(Path(standin))} "$@"\n')
    claude.chmod(0o755)
    with world(root, claude=str(claude)) as running:
        yield running


@pytest.mark.parametrize("code", [0, 3])
async def test_1_mb_on_stderr_before_any_stdout_hangs_nothing_and_its_tail_is_kept(
    loud: World, name: str, code: int
) -> None:
    record = await loud.run(name, "text done" if code == 0 else f"exit {code}")
    if code == 0:
        assert record["last_turn"]["outcome"] == "finished"
    else:
        assert record["last_turn"]["exit_code"] == code
        assert "xxx" in record["last_turn"]["detail"]
        assert "the last words" in record["last_turn"]["detail"]
