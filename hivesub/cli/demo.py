"""`hivesub demo`: a daemon of its own on a free port, driven over MCP as an agent would, shown as it goes.

Leaves nothing behind: its directories are temporary and its daemon ends with it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hivesub.cli.daemon import Calls, connected
from hivesub.cli.exits import Exit, is_over
from hivesub.cli.follow import EVERY_S, Screen
from hivesub.cli.owndaemon import own_daemon
from hivesub.cli.scenes import REAL, STANDIN, Scenes
from hivesub.cli.show import COLOURS, terminal
from hivesub.cli.table import table
from hivesub.readable import clean, span
from hivesub.records import CheckOutcome
from hivesub.shapes import Record, Todo
from hivesub.wording import check_sentence, title_words

TODOS_S = 5.0
ANSWER_AFTER_S = 2.0
"""How long a person thinks about a question."""
CHECK = "done"
"""What the check of the goal is called."""


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
        scenes = REAL if real else STANDIN
        async with own_daemon(root, claude, {CHECK: scenes.check}) as url, connected(url, None) as calls:
            which = "the real claude" if real else "a stand-in for claude: nothing leaves this machine"
            console.print(f"A daemon is up, on {which}. Its page while this runs: {url}/\n")
            play = _Play(calls, scenes, console)
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


class _Play:
    """The agent's part."""

    def __init__(self, calls: Calls, scenes: Scenes, console: Console) -> None:
        self.scenes = scenes
        self.runs: list[str] = []
        self._goal_name, self._asks_name, self._wedged_name = scenes.names
        self._calls = calls
        self._console = console
        self._said: list[tuple[Text, Text]] = []
        self._screen = Screen(console, self._draw)
        self._over = False
        self._checked_at = ""

    def _draw(self, records: Any, passed_s: float) -> RenderableType:
        said = Table.grid(padding=(0, 2))
        said.add_column(justify="right", no_wrap=True)
        said.add_column(ratio=1)
        for who, words in self._said[-8:]:
            said.add_row(who, words)
        return Group(table(records, passed_s), Text(), said)

    def _say(self, name: str, words: str, *, colour: str = "") -> None:
        line = (Text(name, style="dim"), Text(clean(words), style=colour))
        self._said.append(line)
        if not self._console.is_terminal:
            self._console.print(f"{name:>12}  {line[1].plain}", soft_wrap=True)

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
                for record in records:
                    self._say_check(record)
                self._screen.show(sorted(records, key=lambda record: self.scenes.names.index(record["name"])))
                await asyncio.sleep(0 if last else EVERY_S)

    async def _ended(self, name: str) -> Record:
        while not is_over(record := await self._calls.record(name, wait_s=20)):
            pass
        return record

    async def _start(self, name: str, prompt: str, **arguments: Any) -> None:
        asked = prompt.partition("\n")[0]
        goal = f" Goal: {arguments['goal']}." if "goal" in arguments else ""
        goal += f" Check: {arguments['check']}." if "check" in arguments else ""
        self._say("agent", f"start {name}: {asked}{goal}")
        await self._calls.call("start", name=name, prompt=prompt, **arguments)
        self.runs.append(name)

    async def _goal(self) -> None:
        await self._start(
            self._goal_name,
            self.scenes.goal_prompt,
            goal=self.scenes.goal,
            check=CHECK,
            max_turns=5,
            report_file=f"{self._goal_name}.md",
        )
        self._say_end(await self._ended(self._goal_name))

    async def _asks(self) -> None:
        await self._start(self._asks_name, self.scenes.asks_prompt, goal=self.scenes.asks_goal, max_turns=3)
        record = await self._ended(self._asks_name)
        self._say_end(record)
        if record["state"] == "blocked":
            await asyncio.sleep(ANSWER_AFTER_S)
            answer = self.scenes.answer.partition("\n")[0]
            self._say("agent", f"continue {self._asks_name}: {answer}")
            await self._calls.call("continue", name=self._asks_name, prompt=self.scenes.answer)
            self.runs.append(self._asks_name)
            self._say_end(await self._ended(self._asks_name))

    async def _wedged(self) -> None:
        await self._start(self._wedged_name, self.scenes.wedged_prompt)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 4 * self.scenes.silence_s
        silent_s = 0.0
        while silent_s < self.scenes.silence_s and loop.time() < deadline:
            await asyncio.sleep(EVERY_S)
            record = await self._calls.record(self._wedged_name)
            if is_over(record):  # a real model may be quicker than that
                self._say_end(record)
                return
            silent_s = record["last_event_age_s"] or 0.0
        self._say("agent", f"interrupt {self._wedged_name}: its last event was {span(silent_s)} ago")
        await self._calls.call("interrupt", name=self._wedged_name)
        self._say_end(await self._calls.record(self._wedged_name))

    def _say_check(self, record: Record) -> None:
        """Once for each time that the check held a claim back."""
        check = record["check"]
        if check and check["outcome"] != CheckOutcome.PASSED and check["ended_at"] != self._checked_at:
            self._checked_at = check["ended_at"]
            self._say(record["name"], f"{check_sentence(record)} {check['tail'].strip()}", colour="yellow")

    def _say_end(self, record: Record) -> None:
        reason = record["stop_reason"]
        check = record["check"]
        if check and check["outcome"] == CheckOutcome.PASSED:  # observed: no words of the subagent's after it
            said = f"`{check['name']}` says {check['tail'].strip()}"
        else:
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
