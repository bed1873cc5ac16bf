"""What makes `twistd` know the subcommand `hivesub`.

No `__init__.py` stands beside this file or above it: twisted.plugin looks for it on `sys.path` by itself.
"""

from twisted.application.service import ServiceMaker

hivesub = ServiceMaker(
    "hivesub",
    "hivesub.tap",
    "Run, watch, resume and stop named headless Claude Code sessions over MCP.",
    "hivesub",
)
