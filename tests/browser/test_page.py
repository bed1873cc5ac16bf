"""The operator's page in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_twisted
from playwright.sync_api import expect
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads

from hivesub.standin import write_wrapper
from tests.browser.window import WAIT_MS, Window
from tests.support.agent import Agent
from tests.support.daemon import Daemon

HOSTILE = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'>"
TOKEN = "t0ken-of-the-test"

# Gives the worst contrast of any text on the page, and whose it is. Backgrounds here are opaque or wholly transparent.
CONTRAST = """
() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [x, y, z] = [r, g, b].map((v) => linear(v / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const back = rgb(getComputedStyle(node).backgroundColor);
      if (back.length < 4 || back[3] > 0) return back;
    }
    return [255, 255, 255];
  };
  let worst = [99, ""];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].filter((each) => each.nodeType === 3).map((each) => each.data.trim()).join("");
    if (!own || !node.checkVisibility() || node.closest(".unseen, .skip")) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst[0]) worst = [ratio, own];
  }
  return worst;
}
"""


def agent(daemon: Daemon) -> Agent:
    return Agent(f"{daemon.url}/mcp", reactor)


async def scene(daemon: Daemon) -> None:
    """A subagent in each state, `s-` and the state its name."""
    calls = agent(daemon)
    asks = f"!standin need_help Which one? {HOSTILE}"
    await calls.call("start", name="s-blocked", prompt=asks, goal=f"{HOSTILE} all of it", max_turns=4)
    await calls.call("start", name="s-idle", prompt="!standin turn 2: goal_reached done", goal="two turns", max_turns=5)
    await calls.call("start", name="s-failed", prompt="!standin api-error no luck")
    await calls.call("start", name="s-killed", prompt="!standin hang")
    await calls.call("interrupt", name="s-killed")
    for name in ("s-blocked", "s-idle", "s-failed"):
        await calls.ended(name)
    await calls.call(
        "start", name="s-running", prompt="!standin text hello\n!standin hang", goal="for ever", max_turns=3
    )


@pytest_twisted.async_fixture(scope="module")  # type: ignore[untyped-decorator]
async def set_scene(daemon: Daemon) -> None:
    await scene(daemon)


@pytest.mark.usefixtures("set_scene")
class TestWhatIsShown:
    async def test_each_state_is_there_in_words_and_hostile_text_is_only_text(
        self, daemon: Daemon, window: Window
    ) -> None:
        def look(page: Any) -> tuple[dict[str, str], Any, str]:
            page.goto(f"{daemon.url}/")
            rows = {
                name: page.locator(f"#row-s-{name} .pill").inner_text()
                for name in ("running", "idle", "blocked", "killed", "failed")
            }
            return rows, page.evaluate("window.hit ?? null"), page.locator("#row-s-blocked").inner_text()

        rows, hit, blocked = await window.look(look)
        assert rows == {state: state for state in rows}
        assert hit is None
        assert HOSTILE in blocked

    async def test_a_screen_reader_is_told_the_table_the_turns_and_the_output(
        self, daemon: Daemon, window: Window
    ) -> None:
        def look(page: Any) -> str:
            page.goto(f"{daemon.url}/")
            tree: str = page.locator("main").aria_snapshot()
            return tree

        tree = await window.look(look)
        assert 'heading "Subagents" [level=1]' in tree
        assert 'columnheader "State"' in tree
        assert 'rowheader "s-blocked' in tree
        assert 'progressbar "Turn 2 of 5"' in tree
        assert re.search(r'img "Output in the last 2 min: [\d.]+ k?B, in \d of 24 slots of 5 s\."', tree)

    async def test_the_page_of_one_has_a_timeline_in_the_colours_of_its_outcomes(
        self, daemon: Daemon, window: Window
    ) -> None:
        def look(page: Any) -> tuple[list[str], list[str], str]:
            page.goto(f"{daemon.url}/")
            page.get_by_role("link", name="s-idle").click()
            page.wait_for_url("**/?name=s-idle")
            page.locator(".timeline rect").first.wait_for()
            fills = page.eval_on_selector_all(".timeline rect", "all => all.map(each => getComputedStyle(each).fill)")
            cells = page.locator("#turns ~ .scroll tbody tr").all_inner_texts()
            return fills, cells, page.locator("main").inner_text()

        fills, rows, text = await window.look(look)
        assert fills == ["rgb(31, 122, 61)"] * 2
        assert [row.split()[:2] for row in rows] == [["2", "finished"], ["1", "finished"]]
        assert "self-reported, not verified" in text

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("path", ["/", "/?name=s-blocked", "/?name=s-running"])
    async def test_all_text_can_be_read_in_light_and_in_dark(
        self, daemon: Daemon, window: Window, scheme: str, path: str
    ) -> None:
        def look(page: Any) -> tuple[float, str]:
            page.goto(f"{daemon.url}{path}")
            worst: tuple[float, str] = page.evaluate(CONTRAST)
            return worst

        ratio, text = await window.look(look, color_scheme=scheme)
        assert ratio >= 4.5, text

    @pytest.mark.parametrize("path", ["/", "/?name=s-blocked"])
    async def test_on_a_narrow_screen_nothing_runs_off_its_side(
        self, daemon: Daemon, window: Window, path: str
    ) -> None:
        def look(page: Any) -> tuple[int, int]:
            page.goto(f"{daemon.url}{path}")
            return page.evaluate("document.scrollingElement.scrollWidth"), page.evaluate("window.innerWidth")

        width, screen = await window.look(look, viewport={"width": 340, "height": 700})
        assert width <= screen

    async def test_without_scripts_it_is_all_there(self, daemon: Daemon, window: Window) -> None:
        def look(page: Any) -> str:
            page.goto(f"{daemon.url}/")
            text: str = page.locator("#row-s-killed").inner_text()
            return text

        assert "was killed mid-turn, not finished" in await window.look(look, java_script_enabled=False)


class TestThatItLives:
    async def test_a_run_appears_goes_on_and_ends_without_a_reload(
        self, daemon: Daemon, window: Window, tmp_path: Path
    ) -> None:
        go, done = tmp_path / "go", tmp_path / "done"
        steps = f"!standin wait-for {go}\n!standin turn 2: wait-for {done}\n!standin turn 2: goal_reached yes"
        calls = agent(daemon)

        def look(page: Any) -> list[str]:
            page.goto(f"{daemon.url}/")
            page.evaluate("window.here = true")
            cast(IReactorFromThreads, reactor).callFromThread(starting.callback, None)
            row = page.locator("#row-lives")
            row.wait_for()
            seen = [row.locator(".turn").inner_text()]
            go.touch()
            expect(row.locator("progress")).to_have_attribute("value", "2", timeout=WAIT_MS)
            done.touch()
            expect(row.locator(".pill")).to_have_text("idle", timeout=WAIT_MS)
            assert page.evaluate("window.here"), "the page was loaded again"
            return [*seen, row.locator(".why").inner_text()]

        starting: Deferred[None] = Deferred()
        looking = window.look(look)
        await starting.addTimeout(30, reactor)
        await calls.call("start", name="lives", prompt=steps, goal="two turns", max_turns=4)
        assert await looking == ["Turn 1 of 4", "reports its goal reached (self-reported, not verified)"]

    async def test_the_age_ticks_between_two_answers(self, daemon: Daemon, window: Window) -> None:
        calls = agent(daemon)
        await calls.call("start", name="ticks", prompt="!standin text hello\n!standin hang")

        def look(page: Any) -> None:
            page.goto(f"{daemon.url}/")
            # From here on nothing is answered.
            held: list[Any] = []
            page.route("**/*", lambda route: held.append(route))
            age = page.locator("#row-ticks .age")
            expect(age).not_to_have_text(age.inner_text(), timeout=WAIT_MS)
            # What is held for good is a task of Playwright's that is never done.
            for route in held:
                route.continue_()
            page.unroute_all(behavior="ignoreErrors")

        await window.look(look)
        await calls.call("interrupt", name="ticks")

    async def test_focus_stays_where_it_is_while_rows_move(self, daemon: Daemon, window: Window) -> None:
        calls = agent(daemon)
        await calls.call("start", name="held", prompt="!standin hang")

        def look(page: Any) -> tuple[str, str, str]:
            page.goto(f"{daemon.url}/")
            page.keyboard.press("Tab")
            first = page.evaluate("document.activeElement.className")
            page.get_by_role("link", name="held", exact=True).focus()
            cast(IReactorFromThreads, reactor).callFromThread(start)
            page.locator("#row-newer").wait_for()
            expect(page.locator("#row-newer .pill")).to_have_text("idle", timeout=WAIT_MS)
            focused = page.evaluate("document.activeElement.textContent")
            page.keyboard.press("Enter")
            page.wait_for_url("**/?name=held")
            return first, focused, page.locator("h1").inner_text()

        starting: list[Deferred[Any]] = []

        def start() -> None:
            starting.append(Deferred.fromCoroutine(calls.call("start", name="newer", prompt="x")))

        skip, focused, heading = await window.look(look)
        await starting[0]
        assert (skip, focused) == ("skip", "held")
        assert heading.split() == ["held", "running"]
        await calls.call("interrupt", name="held")

    async def test_a_daemon_that_is_gone_is_told_and_forgotten_when_it_is_back(
        self, window: Window, tmp_path: Path
    ) -> None:
        with Daemon(tmp_path, claude=write_wrapper(tmp_path / "claude", sandboxed=True)) as other:

            def look(page: Any) -> str:
                page.goto(f"{other.url}/")
                other.stop()
                expect(page.locator("#link")).not_to_be_empty(timeout=WAIT_MS)
                told: str = page.locator("#link").inner_text()
                other.start()
                expect(page.locator("#link")).to_be_empty(timeout=WAIT_MS)
                return told

            told = await window.look(look)
        assert told.startswith("No answer from the daemon. What you see is of ")
        # The browser itself notes on the console that a request was refused.
        assert all("ERR_CONNECTION_REFUSED" in each or "Failed to load" in each for each in window.noise)
        window.noise.clear()


async def test_a_browser_comes_in_with_the_token_as_its_password_and_stays_in(window: Window, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    claude = write_wrapper(tmp_path / "claude", sandboxed=True)
    with Daemon(tmp_path, claude=claude, options=["--auth-token-file", str(token_file)]) as locked:
        calls = Agent(f"{locked.url}/mcp", reactor, token=TOKEN)
        await calls.call("start", name="behind", prompt="x")

        def look(page: Any) -> tuple[int, str]:
            answer = page.goto(f"{locked.url}/")
            with page.expect_response(f"{locked.url}/") as refreshed:
                page.locator("#row-behind").wait_for()
            assert refreshed.value.status == 200
            return answer.status, page.locator("#link").inner_text()

        credentials = {"username": "anybody", "password": TOKEN}
        assert await window.look(look, http_credentials=credentials) == (200, "")

        def locked_out(page: Any) -> int:
            status: int = page.goto(f"{locked.url}/").status
            return status

        assert await window.look(locked_out, http_credentials={**credentials, "password": "wrong"}) == 401
    window.noise.clear()  # the browser's own line about the 401
