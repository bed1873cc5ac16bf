"""How hypothesis looks for counterexamples: the same ones each time, unless `HYPOTHESIS_PROFILE=search` asks for new
ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

# No deadline for one example: nothing here asserts time, and the machine may be doing other things.
settings.register_profile(
    "ci",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=200,
    print_blob=True,
    # A counterexample is told as it was found, at once. The search profile takes its time to make it small.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search", parent=settings.get_profile("ci"), derandomize=False, max_examples=2500, phases=Phase
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
