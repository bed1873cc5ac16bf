"""A daemon whose environment holds an ordinary word as a password: names and paths stay what they are."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.world import until, world


async def test_a_password_that_is_an_ordinary_word_replaces_no_name_title_or_directory(tmp_path: Path) -> None:
    sink = tmp_path / "todos.jsonl"
    options = ["--todo", str(sink), "--todo", "http://127.0.0.1:9/hook?agent=reviewer-1"]
    with world(tmp_path / "postgres", environ={"POSTGRES_PASSWORD": "postgres"}, options=options) as own:
        place = own.dir / "reviewer-1"
        place.mkdir()
        report = place / "postgres.md"
        for name in ("postgres", "reviewer-1"):
            steps = ["text done", "stderr FATAL: no postgres"]
            record = await own.run(name, *steps, dir=str(place), report_file=str(report))
            assert (record["name"], record["dir"], record["report_file"]) == (name, str(place), str(report))
        assert "[redacted]" not in "".join(own.agent.texts)
        await until(lambda: sink.exists() and len(sink.read_text().splitlines()) == 2)
        for line in sink.read_text().splitlines():
            todo = json.loads(line)
            assert todo["subagent"]["name"] in todo["title"]
            assert "[redacted]" not in line
        assert "## subagent postgres," in report.read_text()
        assert "[redacted]" not in report.read_text()


async def test_what_others_said_is_rid_of_it_all_the_same(tmp_path: Path) -> None:
    with world(tmp_path / "own", environ={"POSTGRES_PASSWORD": "postgres"}) as own:
        record = await own.run("alpha", "before-init stderr cannot log in with postgres", "before-init exit 1")
        assert "cannot log in with [redacted]" in record["last_turn"]["detail"]
