"""Whoever is not the agent: a web page, a subagent, another user of the machine; none gets further than promised."""

from __future__ import annotations

import json
import os
import re
import socket
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import treq
from twisted.internet import reactor

from hivesub.web import guard
from tests.strangers.conftest import NOBODY, As
from tests.support.agent import Agent
from tests.support.http import headers_of
from tests.support.world import World, answered, prompt, until, world

TOKEN = "Zq4-secret-of-the-agent-9XhT"
TARGET = '{"name": "made-by-a-stranger", "prompt": "x"}'


def token_file(tmp_path: Path) -> str:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    return str(file)


def signal_url(dump: Path) -> str:
    """The URL that a turn was given, off the stand-in's dump."""
    return str(json.loads(dump.read_text())["servers"]["subagent_control"]["url"])


async def held(own: World, name: str, *steps: str, **arguments: Any) -> str:
    """Start a run that stays, and give its signal URL."""
    dump = own.dir / f"{name}.json"
    await own.start(name, *steps, f"before-init dump {dump}", "hang", **arguments)
    await until(dump.exists, "the turn")
    return signal_url(dump)


async def test_a_web_page_is_refused_on_every_route_whatever_it_knows(tmp_path: Path) -> None:
    with world(tmp_path / "own") as own:
        url = own.daemon.url
        living = (await held(own, "alpha", goal="g")).removeprefix(url)
        paths = ["/mcp", living, "/signal/mcp/dead", "/healthz", "/metrics", "/", "/no/such/route", "/.well-known/x"]
        for path in paths:
            for method in ("GET", "POST", "OPTIONS", "HEAD"):
                for headers, status in (
                    ({"Host": "evil.example"}, 421),
                    ({"Host": f"evil.example:{url.rpartition(':')[2]}"}, 421),
                    ({"Origin": "http://evil.example"}, 403),
                    ({"Origin": "null"}, 403),
                    ({"Origin": "http://127.0.0.1:1"}, 403),
                ):
                    answer = await treq.request(
                        method, url + path, headers=headers_of(headers), data=b"{}", persistent=False
                    )
                    said = await answer.content()
                    assert answer.code == status, (method, path, headers)
                    assert not answer.headers.hasHeader("Access-Control-Allow-Origin")
                    assert living.rpartition("/")[2].encode() not in said
        record = await own.agent.record("alpha")
        assert (record["state"], record["signals"], record["control"]) == ("running", [], "connected")


async def test_a_subagent_that_knows_the_address_cannot_start_another_without_the_token(tmp_path: Path) -> None:
    with world(tmp_path / "own", options=["--auth-token-file", token_file(tmp_path), "--tools=Read,Bash"]) as own:
        own.agent = Agent(f"{own.daemon.url}/mcp", reactor, token=TOKEN)
        said = own.dir / "said"
        await own.run("alpha", f"call-url {own.daemon.url}/mcp start {TARGET}", f"save {said}")
        assert said.read_text() == "HTTP 401"
        # Nor does its own route lead there: it has two tools.
        await own.run("beta", f"call subagent_control start {TARGET}", f"save {said}")
        assert "start" in said.read_text() and "made-by-a-stranger" not in said.read_text()
        assert {each["name"] for each in (await own.agent.call("status"))["subagents"]} == {"alpha", "beta"}


@pytest.mark.parametrize("held_as", ["plain", "hashed"])
def test_the_agents_token_is_compared_by_digests_of_one_length_in_constant_time(
    held_as: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(shown: bytes, kept: bytes) -> bool:
        compared.append((shown, kept))
        return False

    monkeypatch.setattr(guard, "compare_digest", compare)
    digest = sha256(TOKEN.encode()).digest()
    bearer = guard.Bearer(TOKEN if held_as == "plain" else f"sha256:{digest.hex()}")
    guesses = [TOKEN, TOKEN[:-1], "x", "x" * 4000]
    # Nothing else decides: not even the right one passes when the comparison says no.
    assert not any(bearer.accepts(f"Bearer {guess}".encode()) for guess in guesses)
    assert compared == [(sha256(guess.encode()).digest(), digest) for guess in guesses]
    assert not [name for name, value in vars(bearer).items() if value == TOKEN]


async def test_a_subagent_speaks_for_no_other(tmp_path: Path) -> None:
    with world(tmp_path / "own") as own:
        await held(own, "alpha", goal="g")
        said = own.dir / "said"
        arguments = json.dumps({"reason": "mine", "name": "alpha", "session": "alpha"})
        record = await own.run(
            "beta", f"call subagent_control need_help {arguments}", f"save {said}", goal="g", max_turns=1
        )
        assert '"name": is no field of this tool' in said.read_text()
        assert record["signals"] == []
        await own.run("gamma", "need_help mine", goal="g")
        assert (await own.agent.record("alpha"))["signals"] == []


async def test_a_token_has_256_bits_is_new_for_each_turn_and_dead_at_its_end(tmp_path: Path) -> None:
    with world(tmp_path / "own") as own:
        dumps = [own.dir / f"{number}.json" for number in (1, 2, 3)]
        steps = [f"turn {number}: before-init dump {dump}" for number, dump in enumerate(dumps, 1)]
        await own.run("alpha", *steps, goal="g", max_turns=3)
        urls = [signal_url(dump) for dump in dumps]
        tokens = {url.rpartition("/")[2] for url in urls}
        assert len(tokens) == 3
        # 43 characters of 6 bits hold the 32 random bytes.
        assert all(re.fullmatch("[A-Za-z0-9_-]{43}", token) for token in tokens)
        answers = set()
        for url in (*urls, f"{own.daemon.url}/signal/mcp/{'x' * 43}", f"{own.daemon.url}/signal/mcp/%00"):
            for method in ("POST", "GET", "DELETE"):
                answers.add(await answered(method, url))
        assert len(answers) == 1
        assert next(iter(answers))[0] == 404


async def test_a_config_file_is_its_owners_alone_and_gone_once_it_was_used(tmp_path: Path) -> None:
    with world(tmp_path / "own") as own:
        # One that has not called home yet, and one that has.
        await held(own, "unused", "init mcp=failed")
        (path,) = own.configs()
        assert path.stat().st_mode & 0o777 == 0o600
        for folder in (path.parent, own.daemon.runtime, own.daemon.state):
            assert folder.stat().st_mode & 0o777 == 0o700
        await held(own, "used")
        assert own.configs() == [path]
        await own.agent.call("interrupt", name="unused")
        assert own.configs() == []


async def test_another_user_reads_nothing_of_a_running_daemon(open_root: Path, as_nobody: As) -> None:
    with world(open_root / "own") as own:
        url = await held(own, "alpha", "init mcp=failed")
        await own.run("beta", "text done")
        token = url.rpartition("/")[2]
        assert as_nobody("ls", str(open_root / "own")).returncode == 0
        (config,) = own.configs()
        pid = (await own.agent.record("alpha"))["pid"]
        closed = [
            config,
            own.daemon.state / "todos.jsonl",
            own.daemon.state / "marks.json",
            Path(f"/proc/{pid}/environ"),
        ]
        for path in (*closed, Path(f"/proc/{own.daemon.pid}/environ")):
            assert path.exists()
            tried = as_nobody("cat", str(path))
            assert (tried.returncode, tried.stdout) == (1, ""), path
        for folder in (config.parent, own.daemon.runtime, own.daemon.state):
            assert as_nobody("ls", str(folder)).returncode != 0
            assert as_nobody("touch", str(folder / "x")).returncode != 0
        # Arguments are for all to read, and hold nothing.
        for each in (pid, own.daemon.pid):
            shown = as_nobody("cat", f"/proc/{each}/cmdline")
            assert shown.returncode == 0 and shown.stdout != ""
            assert token not in shown.stdout


async def test_another_user_cannot_connect_to_a_socket_of_mode_600(open_root: Path, as_nobody: As) -> None:
    path = open_root / "s"
    options = [f"--listen=unix:{path}:mode=600", "--public-url=http://127.0.0.1:9"]
    with world(open_root / "own", options=options):
        assert path.is_socket()
        assert connected(path) == "connected"
        assert connected(path, as_user=NOBODY) == "PermissionError"


def connected(path: Path, as_user: int | None = None) -> str:
    """What comes of connecting to a unix socket, in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "connected"
        try:
            if as_user is not None:
                os.setgroups([])
                os.setresgid(as_user, as_user, as_user)
                os.setresuid(as_user, as_user, as_user)
            socket.socket(socket.AF_UNIX).connect(str(path))
        except BaseException as error:
            said = type(error).__name__
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as told:
        said = told.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize("option", ["runtime-dir", "state-dir"])
@pytest.mark.parametrize("trap", ["a link", "somebody's directory", "an open directory"])
async def test_a_directory_that_another_user_put_there_first_is_refused(
    option: str, trap: str, open_root: Path, as_nobody: As
) -> None:
    own, place = open_root / "own", open_root / "place"
    if trap == "a link":
        (open_root / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(open_root / "elsewhere")
        says = "is a symlink"
    else:
        place.mkdir(mode=0o700)
        if trap == "an open directory":
            place.chmod(0o777)
            says = "is open to others"
        else:
            os.chown(place, NOBODY, NOBODY)
            says = f"belongs to user {NOBODY}"
    with pytest.raises(AssertionError, match=says), world(own, options=[f"--{option}", str(place)]):
        pass
    found = as_nobody("find", str(open_root), "-newer", str(own / "claude"), "-name", "*.json")
    assert found.stdout == ""


async def test_a_report_path_that_a_subagent_swaps_for_a_link_leads_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "report.md").write_text("as it was")
    with world(tmp_path / "own") as own:
        swaps = {
            "folder": f"rm -rf r && ln -s {outside} r",
            "file": f"mkdir -p r && rm -f r/report.md && ln -s {outside}/report.md r/report.md",
            "new": f"mkdir -p r && rm -f r/report.md && ln -s {outside}/made.md r/report.md",
        }
        for name, swap in swaps.items():
            where = own.dir / name
            (where / "r").mkdir(parents=True)
            record = await own.run(
                name, "need_help report_file=r/report.md help", f"bash cd {where} && {swap}", goal="g", dir=str(where)
            )
            assert record["state"] == "blocked"
            told = await until_told(own, name)
            assert "outside" in told["report_error"] or "cannot append" in told["report_error"]
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"report.md": "as it was"}


async def until_told(own: World, name: str) -> Any:
    """The record in a subagent's todo."""
    return (await own.todo(name))["subagent"]


async def test_a_prompt_that_looks_like_options_is_none(tmp_path: Path) -> None:
    with world(tmp_path / "own") as own:
        dump = own.dir / "dump.json"
        text = f"--mcp-config=/etc/passwd\n{prompt(f'dump {dump}')}"
        await own.agent.call("start", name="alpha", prompt=text)
        await own.agent.ended("alpha")
        given = json.loads(dump.read_text())
        assert given["prompt"] == text
        assert not [word for word in given["argv"] if "/etc/passwd" in word]
        assert list(given["servers"]) == ["subagent_control"]
