"""`hivesub demo`: a daemon of its own on a free port, driven over MCP as an agent would, shown as it goes.

Leaves nothing behind: its directories are temporary and its daemon ends with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hivesub.cli.daemon import Calls, connected
from hivesub.cli.exits import Exit, is_over
from hivesub.cli.follow import EVERY_S, Screen
from hivesub.cli.scenes import REAL, STANDIN, Scenes
from hivesub.cli.show import COLOURS, table, terminal
from hivesub.cli.troubles import Unreachable
from hivesub.readable import clean, span
from hivesub.shapes import Record, Todo
from hivesub.standin import write_wrapper
from hivesub.tryout import command
from hivesub.turns.command import find_wrappers
from hivesub.wording import title_words

UP_S = 30.0
DOWN_S = 18.0
"""Beyond the bound that the daemon sets itself."""
TODOS_S = 5.0
ANSWER_AFTER_S = 2.0
"""How long a person thinks about a question."""

_READY = re.compile(r"claude mcp add --transport http --scope user subagent (http://\S+)/mcp")


async def demo(*, real: bool, stay: bool, console: Console | None = None) -> int:
    """Play it; gives the exit code: 0 when every run ended as it was to. SIGTERM and SIGHUP end it as Ctrl-C does."""
    received: list[int] = []
    playing = asyncio.current_task()
    assert playing is not None

    def end(number: int) -> None:
        received.append(number)
        playing.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            with suppress(RuntimeError):  # not in the main thread
                asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await _played(real=real, stay=stay, console=console or terminal())
    except asyncio.CancelledError:
        if not received:
            raise
        return 128 + received[0]


async def _played(*, real: bool, stay: bool, console: Console) -> int:
    claude = shutil.which("claude") if real else None
    if real and claude is None:
        console.print("hivesub: there is no claude on PATH; leave out --real for the stand-in", style="red")
        return Exit.USAGE
    with tempfile.TemporaryDirectory(prefix="hivesub-demo-") as directory:
        root = Path(directory)
        async with _daemon(root, claude) as url, connected(url, None) as calls:
            told = "the real claude" if real else "a stand-in for claude: nothing leaves this machine"
            console.print(f"A daemon is up, on {told}. Its page while this runs: {url}/\n")
            play = _Play(calls, REAL if real else STANDIN, console)
            try:
                async with asyncio.timeout(play.scenes.bound_s):
                    records = await play.whole()
            except TimeoutError:
                console.print(f"hivesub: the demo did not end within {span(play.scenes.bound_s)}", style="red")
                return Exit.FAILED
            await _show_todos(console, root / "state" / "todos.jsonl", len(play.runs))
            wrong = _surprises(records, real=real)
            for each in wrong:
                console.print(f"hivesub: {each}", style="red")
            _farewell(console, real=real)
            if stay:
                console.print(f"\nThe daemon stays up until Ctrl-C. Its page: {url}/")
                await _ctrl_c()
    return Exit.FAILED if wrong else Exit.OK


async def _ctrl_c() -> None:
    """Wait for it. Here it is how to end, and no interruption."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return


@asynccontextmanager
async def _daemon(root: Path, claude: str | None) -> AsyncIterator[str]:
    """A daemon below a directory; gives its base URL."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HIVESUB_")}
    work = root / "work"
    work.mkdir()
    if claude is None:
        claude = write_wrapper(root / "claude", sandboxed=True)
        environ |= {"CLAUDE_CONFIG_DIR": str(root / "claude-config"), "IS_SANDBOX": "1"}
    options = [f"--dir={work}", f"--claude={claude}", f"--state-dir={root / 'state'}", f"--runtime-dir={root / 'run'}"]
    argv = command(["--port=0", *options])
    setpriv = find_wrappers(os.environ.get("PATH")).setpriv
    if setpriv is not None:  # should this program be killed outright
        argv = [setpriv, "--pdeathsig", "TERM", *argv]
    # A session of its own: Ctrl-C is this program's to pass on.
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environ,
        cwd=root,
        start_new_session=True,
    )
    assert process.stdout is not None
    log: list[str] = []
    reading: asyncio.Task[None] | None = None
    try:
        try:
            async with asyncio.timeout(UP_S):
                url = await _ready(process.stdout, log)
        except TimeoutError:
            url = ""
        if not url:
            raise Unreachable("the demo's daemon did not come up:\n" + "".join(log[-20:]))
        reading = asyncio.create_task(_drain(process.stdout))
        yield url
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        if reading is None:
            reading = asyncio.create_task(_drain(process.stdout))
        try:
            async with asyncio.timeout(DOWN_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        await reading


async def _ready(stdout: asyncio.StreamReader, log: list[str]) -> str:
    async for raw in stdout:
        log.append(raw.decode("utf-8", "replace"))
        found = _READY.search(log[-1])
        if found:
            return found[1]
    return ""


async def _drain(stdout: asyncio.StreamReader) -> None:
    """Read on, so that the daemon never waits for room."""
    while await stdout.read(65536):
        pass


class _Play:
    """The agent's part."""

    def __init__(self, calls: Calls, scenes: Scenes, console: Console) -> None:
        self.scenes = scenes
        self.runs: list[str] = []
        self._goal_name, self._asks_name, self._wedged_name = scenes.names
        self._calls = calls
        self._console = console
        self._told: list[tuple[Text, Text]] = []
        self._screen = Screen(console, self._draw)
        self._over = False

    def _draw(self, records: Any, passed_s: float) -> RenderableType:
        said = Table.grid(padding=(0, 2))
        said.add_column(justify="right", no_wrap=True)
        said.add_column(ratio=1)
        for who, words in self._told[-8:]:
            said.add_row(who, words)
        return Group(table(records, passed_s), Text(), said)

    def _say(self, name: str, words: str, *, colour: str = "") -> None:
        told = (Text(name, style="dim"), Text(clean(words), style=colour))
        self._told.append(told)
        if not self._console.is_terminal:
            self._console.print(f"{name:>12}  {told[1].plain}", soft_wrap=True)

    async def whole(self) -> list[Record]:
        """All three at once; gives their last records."""
        watching = asyncio.create_task(self._watch())
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._goal())
                tasks.create_task(self._asks())
                tasks.create_task(self._wedged())
        finally:
            self._over = True
            await watching
        return [await self._calls.record(name) for name in self.scenes.names]

    async def _watch(self) -> None:
        with self._screen:
            last = False
            while not last:
                last = self._over  # once more after the end
                records = (await self._calls.call("status"))["subagents"]
                self._screen.show(sorted(records, key=lambda record: self.scenes.names.index(record["name"])))
                await asyncio.sleep(0 if last else EVERY_S)

    async def _ended(self, name: str) -> Record:
        while not is_over(record := await self._calls.record(name, wait_s=20)):
            pass
        return record

    async def _start(self, name: str, prompt: str, **arguments: Any) -> None:
        asked = prompt.partition("\n")[0]
        goal = f" Goal: {arguments['goal']}." if "goal" in arguments else ""
        self._say("agent", f"start {name}: {asked}{goal}")
        await self._calls.call("start", name=name, prompt=prompt, **arguments)
        self.runs.append(name)

    async def _goal(self) -> None:
        await self._start(
            self._goal_name,
            self.scenes.goal_prompt,
            goal=self.scenes.goal,
            max_turns=5,
            report_file=f"{self._goal_name}.md",
        )
        self._tell_end(await self._ended(self._goal_name))

    async def _asks(self) -> None:
        await self._start(self._asks_name, self.scenes.asks_prompt, goal=self.scenes.asks_goal, max_turns=3)
        record = await self._ended(self._asks_name)
        self._tell_end(record)
        if record["state"] == "blocked":
            await asyncio.sleep(ANSWER_AFTER_S)
            answer = self.scenes.answer.partition("\n")[0]
            self._say("agent", f"continue {self._asks_name}: {answer}")
            await self._calls.call("continue", name=self._asks_name, prompt=self.scenes.answer)
            self.runs.append(self._asks_name)
            self._tell_end(await self._ended(self._asks_name))

    async def _wedged(self) -> None:
        await self._start(self._wedged_name, self.scenes.wedged_prompt)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 4 * self.scenes.silence_s
        silent_s = 0.0
        while silent_s < self.scenes.silence_s and loop.time() < deadline:
            await asyncio.sleep(EVERY_S)
            record = await self._calls.record(self._wedged_name)
            if is_over(record):  # a real model may be quicker than that
                self._tell_end(record)
                return
            silent_s = record["last_event_age_s"] or 0.0
        self._say("agent", f"interrupt {self._wedged_name}: its last event was {span(silent_s)} ago")
        await self._calls.call("interrupt", name=self._wedged_name)
        self._tell_end(await self._calls.record(self._wedged_name))

    def _tell_end(self, record: Record) -> None:
        reason = record["stop_reason"]
        said = record["signals"][-1]["message"] if record["signals"] else reason["message"] if reason else ""
        self._say(record["name"], f"{title_words(record)}: {said}", colour=COLOURS[record["state"]])


def _surprises(records: list[Record], *, real: bool) -> list[str]:
    """What did not end as it was to. A real model may end its work otherwise, short of failing."""
    return [
        f"{record['name']} ended as {record['state']}, not {expected}"
        for record, expected in zip(records, ("idle", "idle", "killed"), strict=True)
        if record["state"] != expected and (not real or record["state"] == "failed")
    ]


async def _show_todos(console: Console, path: Path, count: int) -> None:
    """The todos, as an agent gets them: one for each run."""
    todos: list[Todo] = []
    loop = asyncio.get_running_loop()
    deadline = loop.time() + TODOS_S
    while len(todos) < count and loop.time() < deadline:
        await asyncio.sleep(0.1)
        if path.exists():
            todos = [clean(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    console.print(f"\nThe todos that the agent got, one for each run that ended ({len(todos)}):")
    for todo in todos:
        colour = COLOURS[todo["subagent"]["state"]]
        title = Text(todo["title"], style=f"bold {colour}")
        console.print(Panel(Text(todo["body"]), title=title, title_align="left", border_style=colour))


def _farewell(console: Console, *, real: bool) -> None:
    console.print("Next: `hivesub serve` starts a daemon; `hivesub mcp-config` says how an agent connects.")
    if not real:
        console.print("`hivesub demo --real` plays this with your own claude.", style="dim")
