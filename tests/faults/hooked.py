"""A daemon that can be made to fail from inside, by `hook/sitecustomize.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.world import World, world

HOOK = Path(__file__).parent / "hook"
PREFIX = os.pathsep.join(filter(None, [str(HOOK), os.environ.get("PYTHONPATH", "")]))


class Hooked:
    """A daemon with `hook/sitecustomize.py` in it."""

    def __init__(self, world: World, faults: Path) -> None:
        self.world = world
        self._faults = faults

    def set(self, what: str, value: str | None) -> None:
        path = self._faults / what
        if value is None:
            path.unlink(missing_ok=True)
        else:
            path.with_suffix(".new").write_text(value)
            path.with_suffix(".new").replace(path)


@contextmanager
def hooked(root: Path, spawn: str | None = None, **daemon: Any) -> Iterator[Hooked]:
    """:param spawn: what every spawn fails with from the daemon's own start on."""
    faults = root / "faults"
    faults.mkdir(parents=True)
    if spawn is not None:
        (faults / "spawn").write_text(spawn)
    with world(root, environ={"PYTHONPATH": PREFIX, "FAULT_DIR": str(faults)}, **daemon) as own:
        yield Hooked(own, faults)
