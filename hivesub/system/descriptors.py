"""The daemon's limit on open descriptors: raised for itself, as each turn takes three, and given back to each child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 65_536
"""As high as it is raised: some programs walk through all descriptors that they could have."""

_log = Logger()


class DescriptorLimit:
    """The soft limit on this process's descriptors. Where the system has none, nothing is done.

    :param resource: the module `resource`, or None where there is none.
    """

    def __init__(self, resource: Any) -> None:
        self._resource = resource
        self._before: tuple[int, int] | None = None

    def lift(self) -> None:
        """Raise it to the hard limit, or to `MOST`."""
        if self._resource is None:
            return
        soft, hard = self._resource.getrlimit(self._resource.RLIMIT_NOFILE)
        lifted = MOST if hard == self._resource.RLIM_INFINITY else min(hard, MOST)
        if soft == self._resource.RLIM_INFINITY or soft >= lifted:
            return
        try:
            self._resource.setrlimit(self._resource.RLIMIT_NOFILE, (lifted, hard))
        except (OSError, ValueError) as error:
            _log.warn("the limit on open descriptors stays {soft}: {error}", soft=soft, error=error)
        else:
            self._before = (soft, hard)

    def give_back(self, pid: int) -> None:
        """Let a child have the limit that the daemon was started with; programs that use `select` break above 1,024.

        Right after the spawn, from outside: a wrapper that does it costs another exec.
        """
        prlimit: Callable[..., Any] | None = getattr(self._resource, "prlimit", None)
        if self._before is None or prlimit is None:
            return
        try:
            prlimit(pid, self._resource.RLIMIT_NOFILE, self._before)
        except (OSError, ValueError):
            pass  # it is gone already, or has changed its user: it keeps what it inherited


def descriptor_limit() -> DescriptorLimit:
    """This process's own."""
    try:
        import resource
    except ImportError:
        return DescriptorLimit(None)
    return DescriptorLimit(resource)
