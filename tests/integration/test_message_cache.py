"""What a process remembers of conversations is what the store has, and what it wrote itself is not read again."""

from __future__ import annotations

import pytest

from perdure.store.message_cache import MessageCache
from perdure.store.messages import read_messages
from perdure.uap.ids import root_node_id
from perdure.upp.json_value import JSONValue
from tests.integration.store_story import Story

pytestmark = pytest.mark.asyncio(loop_scope="module")

EPOCH = 0


class Kept:
    """A session whose writes a cache is told of, as the activities do."""

    def __init__(self, story: Story) -> None:
        self.story, self.cache = story, MessageCache(story.database)
        self.node = root_node_id(story.key.session)

    async def answer(self, run: str, step: int, calls: list[str]) -> None:
        """An answer of this process."""
        assert await self.story.save(run, step, calls) == "won"
        self.cache.add_answer(self.story.writer(run), self.story.answer(run, step, calls), EPOCH)

    async def result(self, run: str, index: int, step: int, value: JSONValue) -> None:
        """A result of this process."""
        row = self.story.result_row(run, index, step=step, value=value)
        saved = await self.story.result(run, index, step=step, value=value)
        assert saved.kind == "won"
        self.cache.add_result(self.story.key, row, saved.batch_sha256)

    async def load(self, end: int) -> None:
        """Read what is before the run's first answer."""
        await self.cache.read(self.story.key, self.node, end=end, epoch=EPOCH)


@pytest.mark.parametrize("calls", [["one"], ["one", "two", "three"]])
async def test_what_a_process_wrote_itself_is_not_read_again(story: Story, calls: list[str]) -> None:
    kept = Kept(story)
    run = await story.run()
    await kept.load(1)
    for step in (1, 2):
        await kept.answer(run, step, calls)
        for index in reversed(range(len(calls))):
            await kept.result(run, index, step, {"of": [index, "\u00e9 \u2028", None], "step": step})
    await kept.answer(run, 3, [])
    stored = await read_messages(story.database, story.key, kept.node)
    async with story.database.driver() as connection:  # whoever reads now finds nothing
        await connection.execute("delete from perdure.messages where session_id = $1", story.key.session)
    assert await kept.cache.read(story.key, kept.node, end=6, epoch=EPOCH) == stored
    assert len(stored) == 6
    assert await kept.cache.read(story.key, kept.node, first=2, end=5, epoch=EPOCH) == stored[2:5]


async def test_how_far_it_reaches(story: Story) -> None:
    """A conversation that nobody has read yet is at hand up to its first message."""
    kept = Kept(story)
    await story.run()

    def reaches(position: int, epoch: int = EPOCH) -> bool:
        return kept.cache.reaches(story.key, kept.node, position=position, epoch=epoch)

    assert [reaches(0), reaches(1)] == [True, False]
    await kept.load(1)
    assert [reaches(0), reaches(1), reaches(2), reaches(1, epoch=1)] == [True, True, False, False]


async def test_what_another_process_wrote_is_read(story: Story) -> None:
    """A result of a batch, then a whole step."""
    kept = Kept(story)
    run = await story.run()
    await kept.load(1)
    await kept.answer(run, 1, ["one", "two"])
    await story.result(run, 1, step=1, value="elsewhere")
    await kept.result(run, 0, 1, "here")
    await story.save(run, 2, ["three"])
    await story.result(run, 0, step=2, value="elsewhere too")
    await kept.answer(run, 3, [])
    stored = await read_messages(story.database, story.key, kept.node)
    assert await kept.cache.read(story.key, kept.node, end=6, epoch=EPOCH) == stored
