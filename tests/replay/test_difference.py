"""What is said of a history that does not replay: the first event that this code would not come to."""

from __future__ import annotations

import pytest
from temporalio.worker import Replayer

from perdure.worker.build import perdure_plugin
from perdure.worker.replay_difference import Difference, explain
from tests.replay.record import FOLDER
from tests.replay.test_replay import HastySession, converter_only, load

CASES = [
    ("one_answer.1", ('"perdure.generate"', '"other"'), 7, "an activity (other); this code would make a model call"),
    ("tools_and_barriers.1", ('"perdure.call_tool"', '"perdure.call_user"'), None, "this code would make a tool call"),
    (
        "paused_and_resumed.1",
        ('"signalName":"pause"', '"signalName":"x"'),
        18,
        "a note (perdure.record); this code would not",
    ),
]


async def difference(replayer: Replayer, name: str, change: tuple[str, str] | None = None) -> Difference:
    """Why a history does not replay."""
    result = await replayer.replay_workflow(load(FOLDER / f"{name}.json", change), raise_on_replay_failure=False)
    assert result.replay_failure is not None
    return explain(result.history, result.replay_failure)


@pytest.mark.parametrize(("name", "change", "event", "words"), CASES, ids=[case[0] for case in CASES])
async def test_s41_the_first_difference_is_named(
    name: str, change: tuple[str, str], event: int | None, words: str
) -> None:
    """By its number and in words; the SDK's own reason goes with it."""
    found = await difference(Replayer(workflows=[], plugins=[perdure_plugin()]), name, change)
    assert found.event == event or (event is None and found.event is not None)
    assert words in found.what
    assert f"event {found.event} of the history" in found.what
    assert "TMPRL" not in found.reason


async def test_a_timer_too_many_is_named() -> None:
    """Code that does something before what the history has first."""
    found = await difference(converter_only([HastySession]), "continues_as_new.2")
    assert found.event == 5
    assert found.what == "event 5 of the history is a model call (perdure.generate); this code would set a timer"
