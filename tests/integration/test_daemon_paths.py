"""A directory whose name is no UTF-8: claude cannot work there and says so, and everything said of it is valid text."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.support.world import world

NAME = os.fsdecode(b"b\xe9d")
SHOWN = "b\ufffdd"


async def test_a_goal_run_there_fails_by_claudes_own_words_and_one_elsewhere_works(tmp_path: Path) -> None:
    place = tmp_path / NAME
    place.mkdir()
    shown = f"{tmp_path}/{SHOWN}"
    with world(tmp_path / "own", options=["--dir", str(place)]) as own:
        assert f"--dir: {shown} is no UTF-8, and claude cannot work there" in own.daemon.log_text()
        record = await own.run("alpha", "text here", goal="be here", max_turns=2, report_file="report.md")
        assert (record["state"], record["turn"], record["dir"]) == ("failed", 1, shown)
        assert f"Can't access working directory {shown}" in record["last_turn"]["detail"]
        assert (record["report_file"], record["report_error"]) == (f"{shown}/report.md", None)
        assert "## subagent alpha," in (place / "report.md").read_text(encoding="utf-8")
        todo = await own.todo("alpha")
        assert todo["subagent"]["dir"] == shown
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        record = await own.run("beta", "text here", goal="be here", max_turns=2, dir=str(elsewhere))
        assert (record["state"], record["turn"]) == ("idle", 2)
        for text in own.agent.texts:
            json.dumps(text, ensure_ascii=False).encode()  # no half of a surrogate pair
        assert not own.tracebacks()
