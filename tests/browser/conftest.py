from __future__ import annotations

from collections.abc import Iterator

import pytest

from hivesub.standin import write_wrapper
from tests.browser.window import Window
from tests.support.daemon import Daemon


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("daemon")
    with Daemon(root, claude=write_wrapper(root / "claude", sandboxed=True)) as running:
        yield running


@pytest.fixture(scope="session")
def _window() -> Iterator[Window]:
    window = Window()
    try:
        window.start()
        yield window
    finally:
        window.stop()


@pytest.fixture
def window(_window: Window) -> Iterator[Window]:
    """A browser; a test whose pages complained on the console, or asked another host, fails."""
    _window.noise.clear()
    yield _window
    assert _window.noise == []
