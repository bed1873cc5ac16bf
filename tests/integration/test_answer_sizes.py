"""However much was asked for and said, an answer is one that any client takes."""

from __future__ import annotations

from tests.support.world import World, together

MOST_CHARS = 20_000
MOST_CHARS_WITH_RESULT = 40_000


async def text_of(world: World, tool: str, **arguments: object) -> str:
    """What a model reads of a call."""
    answer = await world.agent.request("tools/call", name=tool, arguments=arguments)
    assert not answer["isError"]
    return "\n".join(block["text"] for block in answer["content"])


async def test_no_answer_is_above_the_bound_whatever_the_goals_and_the_results_are(own: World) -> None:
    goal, words = "g" * 300_000, "w" * 90_000
    read = [await text_of(own, "start", name="goal", prompt="!standin hang", goal=goal)]
    for first in range(0, 20, 5):
        names = [f"scout-{number}" for number in range(first, first + 5)]
        await together(*(own.run(name, f"text {words}") for name in names))
    read += [await text_of(own, "status"), await text_of(own, "status", name="goal")]
    read.append(await text_of(own, "interrupt", name="goal"))
    read.append(await text_of(own, "continue", name="goal", prompt="!standin text done"))
    await own.run("latest", f"text {words}")
    results = [await text_of(own, "status", result=True), await text_of(own, "status", name="latest", result=True)]
    assert max(map(len, read)) <= MOST_CHARS
    assert max(map(len, results)) <= MOST_CHARS_WITH_RESULT
    # The twenty that ended last: these but for those in whose place the other two are.
    assert sum(f"scout-{number}: idle." in results[0] for number in range(20)) >= 18
    assert results[1].count("w") > 30_000 and "[cut: 90,000 characters]" in results[1]
