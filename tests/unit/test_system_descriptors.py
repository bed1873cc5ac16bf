"""The limit on descriptors: lifted for the daemon, given back to its children."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hivesub.system.descriptors import MOST, DescriptorLimit


class FakeResource:
    """The module `resource` of a process with one limit."""

    RLIMIT_NOFILE = 7
    RLIM_INFINITY = -1

    def __init__(self, soft: int, hard: int, error: Exception | None = None) -> None:
        self.limit = (soft, hard)
        self.given: list[tuple[int, int, tuple[int, int]]] = []
        self.error = error

    def getrlimit(self, which: int) -> tuple[int, int]:
        return self.limit

    def setrlimit(self, which: int, limit: tuple[int, int]) -> None:
        if self.error is not None:
            raise self.error
        self.limit = limit

    def prlimit(self, pid: int, which: int, limit: tuple[int, int]) -> None:
        if self.error is not None:
            raise self.error
        self.given.append((pid, which, limit))


class TheLimit(SynchronousTestCase):
    def test_it_is_lifted_to_the_hard_one_and_children_get_the_old_one(self) -> None:
        resource = FakeResource(1024, 4096)
        limit = DescriptorLimit(resource)
        limit.lift()
        limit.give_back(42)
        self.assertEqual(resource.limit, (4096, 4096))
        self.assertEqual(resource.given, [(42, 7, (1024, 4096))])

    def test_it_is_lifted_no_higher_than_is_good_for_anybody(self) -> None:
        for hard in (1_000_000, FakeResource.RLIM_INFINITY):
            resource = FakeResource(1024, hard)
            DescriptorLimit(resource).lift()
            self.assertEqual(resource.limit, (MOST, hard))

    def test_one_that_is_high_already_is_left_and_passed_on(self) -> None:
        for soft in (4096, FakeResource.RLIM_INFINITY):
            resource = FakeResource(soft, 4096)
            limit = DescriptorLimit(resource)
            limit.lift()
            limit.give_back(42)
            self.assertEqual((resource.limit, resource.given), ((soft, 4096), []))

    def test_a_system_that_refuses_or_has_none_hinders_nothing(self) -> None:
        resource = FakeResource(1024, 4096)
        limit = DescriptorLimit(resource)
        limit.lift()
        resource.error = ProcessLookupError()
        limit.give_back(42)
        refusing = DescriptorLimit(FakeResource(1024, 4096, ValueError("no")))
        refusing.lift()
        refusing.give_back(42)
        nothing = DescriptorLimit(None)
        nothing.lift()
        nothing.give_back(42)
        self.assertEqual(resource.given, [])
