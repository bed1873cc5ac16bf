"""The pictures in the documentation, of a daemon on the stand-in: `python -m tests.browser.pictures docs/images`."""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright
from rich.console import Console

from hivesub.cli import demo
from hivesub.cli.daemon import Calls, connected
from hivesub.cli.owndaemon import own_daemon
from hivesub.cli.scenes import STANDIN
from hivesub.standin import write_wrapper
from tests.browser.chromium import find_chromium
from tests.support.daemon import Daemon

MID_DEMO_S = 7.5
WIDE = {"width": 1200, "height": 760}
NARROW = {"width": 390, "height": 760}


def steps(*lines: str) -> str:
    return "\n".join(f"!standin {line}" for line in lines)


async def ended(calls: Calls, name: str) -> None:
    while (await calls.record(name, wait_s=20))["state"] == "running":
        pass


async def set_scene(calls: Calls) -> None:
    """A fleet in the middle of its day."""
    await calls.call("start", name="cut-off", prompt=steps("flood 20 200 20", "hang"))
    await calls.call(
        "start",
        name="migrate-db",
        goal="all migrations run on a copy of production",
        max_turns=6,
        prompt=steps(
            "cost 0.31", "flood 30 300 10", "need_help Which customer table is the current one, v1 or customers_v2?"
        ),
    )
    await calls.call(
        "start",
        name="docs-links",
        goal="no dead link in docs/",
        max_turns=5,
        prompt=steps("cost 0.11", "flood 20 500 20", "turn 2: cost 0.09", "turn 2: goal_reached 214 links, all answer"),
    )
    await calls.call("start", name="broken", prompt=steps("api-error API Error: 529 overloaded"))
    await calls.call(
        "start", name="speed-up", goal="the suite runs in under a minute", max_turns=3, prompt=steps("cost 1.48")
    )
    for name in ("docs-links", "migrate-db", "broken", "speed-up"):
        await ended(calls, name)
    await calls.call("interrupt", name="cut-off")
    await calls.call("start", name="wedged-build", prompt=steps("flood 20 200 20", "hang"))
    await calls.call(
        "start",
        name="flaky-login",
        goal="test_login passes 50 times in a row",
        max_turns=4,
        report_file="flaky-report.md",
        prompt=steps(
            "cost 0.21", "flood 40 300 20", "turn 2: cost 0.43", "turn 2: flood 120 900 30",
            "turn 3: flood 300 400 12", "turn 3: hang",
        ),
    )  # fmt: skip
    await asyncio.sleep(24)


async def take_page(browser: Any, out: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        with Daemon(root, claude=write_wrapper(root / "claude", sandboxed=True)) as daemon:
            async with connected(daemon.url, None) as calls:
                await set_scene(calls)
            for name, path, scheme, viewport in (
                ("page-light", "/", "light", WIDE),
                ("page-dark", "/", "dark", WIDE),
                ("page-narrow", "/", "light", NARROW),
                ("subagent-light", "/?name=flaky-login", "light", WIDE),
                ("subagent-dark", "/?name=flaky-login", "dark", WIDE),
            ):
                page = await browser.new_page(viewport=viewport, color_scheme=scheme)
                await page.goto(f"{daemon.url}{path}")
                await page.screenshot(path=out / f"{name}.png", full_page=True)
                await page.close()


async def take_demo(browser: Any, out: Path) -> None:
    """What a terminal shows in the middle of `hivesub demo`."""
    recorder = Console(
        record=True, file=io.StringIO(), width=118, force_terminal=True, color_system="truecolor", highlight=False
    )
    with tempfile.TemporaryDirectory() as directory:
        async with own_daemon(Path(directory), None, {demo.CHECK: STANDIN.check}) as url, connected(url, None) as calls:
            play = demo._Play(calls, STANDIN, Console(file=io.StringIO(), force_terminal=True, width=118))
            playing = asyncio.create_task(play.whole())
            await asyncio.sleep(MID_DEMO_S)
            recorder.print(play._screen._picture())
            await playing
    svg = out / "demo.svg"
    recorder.save_svg(str(svg), title="hivesub demo")
    # Its fonts would come from elsewhere; the browser's own do.
    svg.write_text("".join(part.partition("}")[2] for part in f"}}{svg.read_text()}".split("@font-face")))
    page = await browser.new_page(viewport={"width": 1200, "height": 640}, device_scale_factor=1)
    await page.goto(svg.as_uri())
    height = await page.evaluate("(box => 1200 * box.height / box.width)(document.documentElement.viewBox.baseVal)")
    await page.set_viewport_size({"width": 1200, "height": round(height)})
    await page.locator("svg").first.screenshot(path=out / "demo.png")
    svg.unlink()


async def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        await take_demo(browser, out)
        await take_page(browser, out)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).absolute()))
