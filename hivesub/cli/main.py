"""The command line of `hivesub`. Exit codes: see `hivesub.cli.exits`.

Its own imports are light; what calls and draws is loaded by the command that needs it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivesub import __version__
from hivesub.cli.exits import Exit, exit_of
from hivesub.endings import GOING_ON

if TYPE_CHECKING:
    from rich.console import Console

    from hivesub.cli.daemon import Calls
    from hivesub.shapes import Record

DEFAULT_URL = "http://127.0.0.1:8787"
URL_VARIABLE = "HIVESUB_URL"
TOKEN_VARIABLE = "HIVESUB_AUTH_TOKEN_FILE"

_EPILOG = """\
exit codes: 0 done; 1 the daemon refused the call; 2 usage; 3 no daemon, or a wrong token; 130 Ctrl-C (runs go on).
With --watch on one run, also: 10 it is blocked and asks for help; 11 it stopped short of its goal (turn cap, budget,
no signal route, cut off); 12 killed; 13 failed; 14 it reports its goal reached, which nobody has checked.
"""


def build_parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="hivesub",
        description="Look at and steer the subagents of a hivesub daemon, or see it work (`hivesub demo`).",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hivesub {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--url",
        default=environ.get(URL_VARIABLE) or DEFAULT_URL,
        help=f"the daemon's address, without /mcp [${URL_VARIABLE}, else {DEFAULT_URL}]",
    )
    common.add_argument(
        "--auth-token-file",
        type=Path,
        default=environ.get(TOKEN_VARIABLE) or None,
        metavar="FILE",
        help=f"a file with the daemon's token [${TOKEN_VARIABLE}]",
    )
    common.add_argument("--json", action="store_true", help="print JSON: what the tool answered, for scripts")
    watch = argparse.ArgumentParser(add_help=False)
    watch.add_argument("-w", "--watch", action="store_true", help="stay, and show it live until the run is over")

    status = commands.add_parser("status", parents=[common, watch], help="tell of one subagent or of all")
    status.add_argument("name", nargs="?", help="one subagent; all that run and the last that ended otherwise")
    status.add_argument("--result", action="store_true", help="add the last thing that it said")

    for verb, text in (("start", "start a subagent"), ("continue", "continue one: another prompt to its session")):
        command = commands.add_parser(verb, parents=[common, watch], help=text)
        command.add_argument("name")
        command.add_argument("prompt", nargs="?", default="-", help="the task; - or nothing reads it from stdin")
        _add_fields(command)
        if verb == "continue":
            command.add_argument("--session-id", help="the session, where the name alone does not tell")

    interrupt = commands.add_parser("interrupt", parents=[common], help="stop a run")
    interrupt.add_argument("name")

    config = commands.add_parser("mcp-config", parents=[common], help="print what to paste so that an agent connects")
    config.description = "Prints the command and the .mcp.json entry. Asks no daemon, and prints no token."

    demo = commands.add_parser("demo", help="see a daemon work, on a stand-in for claude: no account, under 30 s")
    demo.add_argument("--real", action="store_true", help="with the real claude, at the cost of its account")
    demo.add_argument("--stay", action="store_true", help="keep the daemon and its page up until Ctrl-C")
    return parser


def _add_fields(command: argparse.ArgumentParser) -> None:
    command.add_argument("--goal", help="work toward this, over several turns")
    command.add_argument("--max-turns", type=int, metavar="N", help="at most so many turns [5]")
    command.add_argument("--dir", type=os.path.abspath, help="the directory to work in [the daemon's]")
    command.add_argument("--report-file", metavar="FILE", help="where the report goes")
    command.add_argument("--model")
    command.add_argument("--effort")
    command.add_argument("--max-budget-usd", type=float, metavar="USD", help="what the run may cost")
    command.add_argument("--idle-timeout-s", type=float, metavar="S", help="interrupt a turn that is silent for longer")
    command.add_argument("--request-key", metavar="KEY", help="a repeated call with the same key is not done twice")


FIELDS = (
    "name", "dir", "goal", "max_turns", "report_file", "model", "effort", "max_budget_usd", "idle_timeout_s",
    "request_key", "session_id",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit code."""
    arguments = build_parser(os.environ).parse_args(argv)
    if arguments.command == "mcp-config":
        return _paste(arguments)
    from hivesub.cli.daemon import Refused, Unreachable

    try:
        if arguments.command == "demo":
            from hivesub.cli.demo import demo

            return asyncio.run(demo(real=arguments.real, stay=arguments.stay))
        return asyncio.run(_run(arguments))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Refused as error:
        return _fail(str(error), Exit.REFUSED)
    except Unreachable as error:
        return _fail(str(error), Exit.UNREACHABLE)
    except BrokenPipeError:
        # The reader is gone, as of `hivesub status | head -1`; nothing more is to be written, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


def _fail(text: str, code: Exit) -> int:
    from hivesub.readable import clean

    print(f"hivesub: {clean(text)}", file=sys.stderr)
    return code


def _paste(arguments: argparse.Namespace) -> int:
    from hivesub.cli.paste import mcp_json, paste_text

    token, url = arguments.auth_token_file is not None, _base(arguments.url)
    print(mcp_json(url, token=token) if arguments.json else paste_text(url, token=token))
    return Exit.OK


def _base(url: str) -> str:
    """The base URL, also where somebody gives the endpoint's."""
    return url.rstrip("/").removesuffix("/mcp")


async def _run(arguments: argparse.Namespace) -> int:
    from hivesub.cli.daemon import connected, read_token
    from hivesub.cli.show import terminal

    async with connected(_base(arguments.url), read_token(arguments.auth_token_file)) as calls:
        console = terminal()
        if arguments.command == "status" and arguments.watch:
            return await _watch(calls, console, arguments, arguments.name)
        answer = await calls.call(arguments.command, **_call_arguments(arguments))
        if getattr(arguments, "watch", False):
            return await _watch(calls, console, arguments, arguments.name)
        _tell(console, arguments, answer)
    return Exit.OK


def _call_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.command == "status":
        return {"name": arguments.name, "result": arguments.result or None}
    given = {field: getattr(arguments, field, None) for field in FIELDS}
    if arguments.command in ("start", "continue"):
        given["prompt"] = _stdin() if arguments.prompt == "-" else arguments.prompt
    return given


def _stdin() -> str:
    if sys.stdin.isatty():
        print("hivesub: reading the prompt; end it with Ctrl-D", file=sys.stderr)
    return sys.stdin.read()


def _tell(console: Console, arguments: argparse.Namespace, answer: Any) -> None:
    from hivesub.cli.show import card, table

    if arguments.json:
        console.out(json.dumps(answer, indent=2), highlight=False)
    elif arguments.command != "status":
        for note in ("replaced_session_id", "previous_signal", "escalated"):
            if answer.get(note):
                console.print(f"{note.replace('_', ' ')}: {answer[note]}", style="yellow")
        if not answer.get("under_way", True):
            console.print("not under way yet: claude has not said that it resumed the session", style="yellow")
        console.print(card(answer["subagent"]))
    elif arguments.name is not None:
        console.print(card(answer["subagents"][0]))
    else:
        console.print(table(answer["subagents"]))


async def _watch(calls: Calls, console: Console, arguments: argparse.Namespace, name: str | None) -> int:
    from hivesub.cli.follow import Screen, follow
    from hivesub.cli.show import card, table

    async def look() -> Sequence[Record]:
        answer = await calls.call("status", name=name)
        records: Sequence[Record] = answer["subagents"]
        return records

    if name is None:
        await follow(Screen(console, table, as_json=arguments.json), look, lambda records: False)
        return Exit.OK
    screen = Screen(
        console, lambda records, passed: card(records[0], passed) if records else "", as_json=arguments.json
    )
    (record,) = await follow(screen, look, lambda records: records[0]["state"] not in GOING_ON)
    return exit_of(record)


if __name__ == "__main__":
    sys.exit(main())
