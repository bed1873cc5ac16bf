"""A wheel, an editable install and a checkout each make `twistd` know hivesub, in a virtual environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.blocks import shell_blocks

ROOT = Path(__file__).parents[2]
BOUND_S = 600
NOT_SOURCES = shutil.ignore_patterns(
    ".git", ".tox", ".venv", "*.egg-info", "__pycache__", ".*_cache", "_trial_temp*", "build", "dist", "node_modules"
)


def run(*argv: str | Path, cwd: Path, **environ: str) -> str:
    """Run a program to its end, within a bound, and give its stdout; what it wrote is shown where it fails."""
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": "", **environ},
        text=True,
        capture_output=True,
        timeout=BOUND_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout to build in, with a plugin cache such as twistd leaves behind."""
    copy = tmp_path_factory.mktemp("sources") / "hivesub"
    shutil.copytree(ROOT, copy, ignore=NOT_SOURCES)
    (copy / "twisted" / "plugins" / "dropin.cache").touch()
    return copy


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by way of the source distribution, so that this one is whole too."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, sources, cwd=out)
    (built,) = out.glob("*.whl")
    return built


def make_venv(path: Path) -> Path:
    """A new virtual environment; gives its directory of programs."""
    venv.create(path, with_pip=True)
    return path / "bin"


def install(programs: Path, *what: str | Path) -> None:
    """Install with pip; nothing is compiled that nobody will import."""
    run(programs / "pip", "install", "-q", "--no-compile", *what, cwd=programs)


def assert_twistd_knows_hivesub(programs: Path, elsewhere: Path, environ: Mapping[str, str]) -> None:
    assert "hivesub" in run(programs / "twistd", "--help", cwd=elsewhere, **environ)
    # Loads the tap, and with it every module that it needs at import time.
    assert "--max-running=" in run(programs / "twistd", "hivesub", "--help", cwd=elsewhere, **environ)


def test_the_wheel_holds_the_package_its_types_and_the_plugin_and_nothing_else_of_twisted(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"hivesub/tap.py", "hivesub/py.typed", "hivesub/standin/__init__.py", "hivesub/web/page/page.css"} <= names
    assert {name for name in names if name.startswith("twisted/")} == {"twisted/plugins/hivesub_plugin.py"}
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"hivesub", "twisted"}
    assert not [name for name in names if name.endswith((".pyc", "dropin.cache"))]


def test_the_wheel_and_the_source_distribution_hold_plugin_and_units(wheel: Path) -> None:
    def files(*under: str) -> set[str]:
        return {str(path.relative_to(ROOT)) for top in under for path in (ROOT / top).rglob("*") if path.is_file()}

    shipped = {name for name in files("plugin") if "__pycache__" not in name}
    with tarfile.open(next(wheel.parent.glob("*.tar.gz"))) as source:
        in_source = {name.partition("/")[2] for name in source.getnames()}
    assert shipped | files("deploy") <= in_source
    in_wheel = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("hivesub/shipped/")}
    units = {f"hivesub/shipped/units/{Path(name).name}" for name in files("deploy/user")}
    assert {f"hivesub/shipped/{name}" for name in shipped} | units == in_wheel - {"hivesub/shipped/__init__.py"}


def assert_the_command_finds_what_is_shipped(programs: Path, home: Path) -> None:
    plugin = Path(run(programs / "hivesub", "plugin-dir", cwd=home).strip())
    assert (plugin / ".claude-plugin" / "plugin.json").is_file()
    assert (plugin / "hooks" / "todos.py").is_file()
    run(programs / "hivesub", "service", "install", "--no-start", cwd=home, XDG_CONFIG_HOME=str(home / "config"))
    unit = (home / "config" / "systemd" / "user" / "hivesub.service").read_text()
    assert f"ExecStart={programs / 'hivesub'} serve" in unit.splitlines()


def test_a_wheel_makes_twistd_know_it_and_without_it_a_checkout_on_the_path(
    sources: Path, wheel: Path, tmp_path: Path
) -> None:
    programs = make_venv(tmp_path / "venv")
    install(programs, wheel)
    assert_twistd_knows_hivesub(programs, tmp_path, {})
    assert_the_command_finds_what_is_shipped(programs, tmp_path)
    # The daemon itself, where no twistd is on PATH.
    assert "--max-running=" in run(programs / "hivesub", "serve", "--help", cwd=tmp_path, PATH="/usr/bin:/bin")
    run(programs / "pip", "uninstall", "-q", "-y", "hivesub", cwd=tmp_path)
    assert "hivesub" not in run(programs / "twistd", "--help", cwd=tmp_path)
    assert_twistd_knows_hivesub(programs, tmp_path, {"PYTHONPATH": str(sources)})


def test_an_editable_install_makes_twistd_know_it(sources: Path, tmp_path: Path) -> None:
    programs = make_venv(tmp_path / "venv")
    install(programs, "-e", sources)
    assert_twistd_knows_hivesub(programs, tmp_path, {})
    assert_the_command_finds_what_is_shipped(programs, tmp_path)


@pytest.mark.parametrize("tool", ["pipx", "uv"])
def test_the_readmes_way_to_install_gives_the_command_and_a_daemon_without_twistd_on_the_path(
    sources: Path, tmp_path: Path, tool: str
) -> None:
    programs = make_venv(tmp_path / "tools")
    install(programs, tool)
    (block,) = (block for block in shell_blocks(ROOT / "README.md") if "pipx install" in block)
    if tool == "uv":
        block = block.replace("pipx install", "uv tool install")
        assert "uv tool install dist/hivesub-*.whl" in (ROOT / "README.md").read_text()
    shown = tmp_path / "bin"
    environ = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(shown),
        "UV_TOOL_DIR": str(tmp_path / "uv"),
        "UV_TOOL_BIN_DIR": str(shown),
        "UV_PYTHON": sys.executable,
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    checkout = tmp_path / "checkout"
    shutil.copytree(sources, checkout)
    run("sh", "-ec", block, cwd=checkout, **environ)
    assert [path.name for path in shown.iterdir()] == ["hivesub"]
    assert "--max-running=" in run(shown / "hivesub", "serve", "--help", cwd=tmp_path, **environ)
    run(shown / "hivesub", "service", "install", "--no-start", cwd=tmp_path, **environ)
    unit = (tmp_path / "config" / "systemd" / "user" / "hivesub.service").read_text()
    (start,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    program = start.removeprefix("ExecStart=").removesuffix(" serve")
    assert run(program, "--version", cwd=tmp_path).startswith("hivesub ")
