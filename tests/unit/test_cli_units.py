"""The text of a user's own unit, and its files."""

from __future__ import annotations

import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hivesub.cli.troubles import Unusable
from hivesub.cli.units import environment_text, text_of, unit_for
from hivesub.shipped import plugin_dir, unit_text

ENVIRON = {"XDG_CONFIG_HOME": "/c", "PATH": "/opt/a:relative::/usr/bin:/opt/a"}


def lines(text: str) -> list[str]:
    return text.splitlines()


class TheUnit(SynchronousTestCase):
    def test_it_runs_this_installation_with_the_programs_that_the_shell_finds(self) -> None:
        for name in (None, "alpha"):
            written = lines(text_of(unit_for(name, ENVIRON), ENVIRON))
            shipped = lines(unit_text("hivesub@.service" if name else "hivesub.service"))
            changed = [new for new, old in zip(written, shipped, strict=True) if new != old]
            path, command = changed
            local = Path("~/.local/bin").expanduser()
            self.assertEqual(path, f"Environment=PATH=/opt/a:/usr/bin:{local}")
            self.assertEqual(command, f"ExecStart={Path(sys.executable).parent / 'hivesub'} serve")

    def test_what_systemd_would_take_for_its_own_is_escaped(self) -> None:
        base = Path(self.mktemp()).absolute() / 'a "b" 100% $HOME'
        base.mkdir(parents=True)
        self.patch(sys, "executable", str(base / "python3"))
        text = text_of(unit_for(None, ENVIRON), {**ENVIRON, "PATH": "/with blank:/50%"})
        quoted = str(base).replace('"', '\\"').replace("%", "%%").replace("$", "$$")
        self.assertIn(f'ExecStart="{quoted}/python3" -m hivesub.cli.main serve', lines(text))
        self.assertIn('Environment="PATH=/with blank:/50%%:', text)

    def test_its_files_are_in_the_users_configuration(self) -> None:
        unit = unit_for(None, ENVIRON)
        self.assertEqual(
            (str(unit.file), str(unit.environment_file), unit.unit),
            ("/c/systemd/user/hivesub.service", "/c/hivesub/hivesub.env", "hivesub.service"),
        )
        unit = unit_for("alpha", ENVIRON)
        self.assertEqual(
            (str(unit.file), str(unit.environment_file), unit.unit),
            ("/c/systemd/user/hivesub@.service", "/c/hivesub/alpha.env", "hivesub@alpha.service"),
        )
        self.assertEqual(unit_for(None, {}).config, Path("~/.config").expanduser())

    def test_a_name_that_is_none_is_refused(self) -> None:
        for name in ("", "../x", "-x", "a b", "x" * 65):
            self.assertRaises(Unusable, unit_for, name, ENVIRON)

    def test_an_environment_file_holds_values_as_they_are(self) -> None:
        self.assertEqual(environment_text({"A": "8787", "B": '/a "b" $c'}), 'A="8787"\nB="/a \\"b\\" \\$c"\n')


class WhatIsShipped(SynchronousTestCase):
    def test_the_plugin_is_whole(self) -> None:
        files = {str(path.relative_to(plugin_dir())) for path in plugin_dir().rglob("*") if path.is_file()}
        self.assertLessEqual({".mcp.json", ".claude-plugin/plugin.json", "hooks/hooks.json", "hooks/todos.py"}, files)
