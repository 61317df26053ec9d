"""Streams of deltas, read from the log of a run by any process: numbered once, held back by the window, resumed from anywhere."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest
import pytest_asyncio

from perdure.protocols.uamp_envelope.delta import Delta, DeltaType
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.lifecycle import State, Step
from perdure.runtime.envelopes.ending import catch_up, end_stream
from perdure.runtime.envelopes.numbering import Numbering
from perdure.store.content.contents import NewContent, keep_content
from perdure.store.content.contents import delete_content as delete_stored
from perdure.store.database import Database, is_away
from perdure.store.deleting import delete_content, forget, mark_deleting
from perdure.store.envelopes.settling import settle
from perdure.store.runs import find_run
from perdure.upp.json_value import JSONObject
from perdure.upp.tool_media import ToolMedia
from tests.integration.stack import Stack, eventually
from tests.integration.stream_story import SECOND, Replica, StreamStory, check_whole, replica, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
HOUR = timedelta(hours=1)
STALL = timedelta(seconds=30)


@pytest_asyncio.fixture(loop_scope="module")
async def story(database: Database) -> StreamStory:
    """A tenant with a session."""
    return StreamStory(database)


@pytest_asyncio.fixture(loop_scope="module")
async def here(stack: Stack, story: StreamStory) -> AsyncGenerator[Replica]:
    """A process of the API."""
    async with replica(stack, story.tenant, story.clock) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def there(stack: Stack, story: StreamStory) -> AsyncGenerator[Replica]:
    """Another one."""
    async with replica(stack, story.tenant, story.clock) as made:
        yield made


async def test_a_run_is_told_as_it_goes_and_ends_once(story: StreamStory, here: Replica) -> None:
    """Text comes while the run is on; what comes between pieces of text parts them; the end says all and signs it."""
    row = await story.asked()
    reader = await here.read(row)
    await story.say(row, "one ", "two ")
    (first,) = await reader.take()
    assert (first.type, first.payload) == ("chunk", {"text": "one two "})
    await story.say(row, "a thought", kind="reasoning_delta", index=1)
    assert (await reader.take())[0].payload == {"stage": "thinking", "text": "a thought"}
    await story.say(row, "three")
    await story.finish(row, "one two three")
    frames = await reader.rest()
    check_whole(frames)
    assert text_of(frames) == "one two three"
    done = dict(frames[-1].payload)
    assert (done["text"], done["session"], done["run"]) == ("one two three", story.story.key.session, row.run)
    assert done["usage"] == {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    after = await story.now(row)
    assert (after.state, after.is_over, after.next_seq) == (State.COMPLETED, True, len(frames))
    assert [frame.to_json() for frame in frames] == await story.frames(row)


async def test_a_stream_is_read_again_from_any_frame(story: StreamStory, here: Replica, there: Replica) -> None:
    """By any process, the same frames with the same times; behind the last one there is nothing."""
    row = await story.asked()
    await story.say(row, "hm", kind="reasoning_delta", index=1)
    await story.say(row, "said")
    await story.finish(row, "said")
    frames = await (await here.read(row)).rest()
    check_whole(frames)
    story.clock.advance(HOUR)
    for last in range(len(frames)):
        again = await there.read(await story.now(row), None if last == 0 else last - 1)
        assert not again.stream.is_past_end
        assert await again.rest() == frames[last:]
    past = await there.read(await story.now(row), len(frames) - 1)
    assert past.stream.is_past_end
    assert await past.rest() == []
    with pytest.raises(UAMPError) as refused:
        await there.read(await story.now(row), len(frames))
    assert refused.value.code == "4.00"


async def test_the_window_lets_so_many_frames_out_and_an_ack_more(story: StreamStory, here: Replica) -> None:
    """What is told meanwhile waits as one chunk where it can; only an ACK of what was sent counts, a repeated one not."""
    row = await story.asked(window=4)
    for n in range(6):
        await story.say(row, f"t{n}", kind="reasoning_delta", index=1)
        await story.say(row, f"w{n} ")
    reader = await here.read(row)
    assert [frame.seq for frame in await reader.take(4)] == [0, 1, 2, 3]
    assert await reader.is_silent()
    for wrong in (4, 100):
        with pytest.raises(UAMPError) as refused:
            await here.ack(row, wrong)
        assert refused.value.code == "4.00"
    await here.ack(row, 3)
    assert [frame.seq for frame in await reader.take(4)] == [4, 5, 6, 7]
    await here.ack(row, 3)
    await here.ack(row, 0)
    assert await reader.is_silent()
    await here.ack(row, 5)
    assert [frame.seq for frame in await reader.take(2)] == [8, 9]
    assert await reader.is_silent()
    await here.ack(row, 9)
    await story.finish(row, "w0 w1 w2 w3 w4 w5 ")
    check_whole(await reader.rest())


async def test_text_waits_as_one_chunk_while_the_window_is_full(story: StreamStory, here: Replica) -> None:
    """A consumer that is slow gets fewer frames, not later ones."""
    row = await story.asked(window=1)
    reader = await here.read(row)
    await story.say(row, "first ")
    await reader.take()
    for n in range(50):
        await story.say(row, f"{n} ", f"{n}' ")
    assert await reader.is_silent(2), "it has time to read all of it"
    await here.ack(row, 0)
    (second,) = await reader.take()
    assert second.payload["text"] == "".join(f"{n} {n}' " for n in range(50))
    await story.finish(row, text_of(reader.taken))
    frames = await reader.rest()
    check_whole(frames)
    assert len(frames) == 3, "the terminal frame goes out, also if the window is full"


async def test_a_consumer_that_stops_holds_nothing_up_and_goes_on_hours_later(
    story: StreamStory, here: Replica, there: Replica
) -> None:
    """Four frames are out; the run ends; by its log all the rest is told to the consumer when it is back."""
    row = await story.asked(window=4)
    reader = await here.read(row)
    said = ""
    for n in range(40):
        await story.say(row, f"t{n}", kind="reasoning_delta", index=1)
        await story.say(row, f"w{n} ")
        said += f"w{n} "
    frames = await reader.take(4)
    assert await reader.is_silent()
    await story.finish(row, said)
    assert len(await story.frames(row)) == 4, "what is not sent is not numbered"
    await reader.close()
    assert row.run is not None
    assert (await find_run(story.database, story.tenant, row.run)).status == "completed"
    assert not await catch_up(here.parts, row.id)
    story.clock.advance(5 * HOUR)
    again = await there.read(await story.now(row), 3)
    rest = await again.rest(row)
    check_whole([*frames, *rest])
    assert text_of([*frames, *rest]) == said
    assert rest[0].sent_at == story.clock.now
    assert (await story.now(row)).state is State.COMPLETED


async def test_a_window_that_stays_full_ends_the_stream_and_not_the_run(story: StreamStory, here: Replica) -> None:
    """After the stall's time by the clock, while the consumer is connected; ACKs begin it anew."""
    row = await story.asked(window=2)
    for n in range(4):
        await story.say(row, f"t{n}", kind="reasoning_delta", index=1)
        await story.say(row, f"w{n} ")
    reader = await here.read(row)
    await reader.take(2)
    story.clock.advance(STALL - SECOND)
    assert await reader.is_silent()
    await here.ack(row, 0)
    await reader.take(1)
    story.clock.advance(STALL - SECOND)
    assert await reader.is_silent()
    frames = await reader.stalled(story.clock, STALL + SECOND)
    check_whole(frames, ends="error")
    assert [frame.seq for frame in frames] == [0, 1, 2, 3]
    assert (frames[-1].payload["code"], frames[-1].payload["retryable"]) == ("5.04", True)
    after = await story.now(row)
    assert (after.state, after.error and after.error["code"]) == (State.ERROR, "5.04")
    assert row.run is not None
    assert (await find_run(story.database, story.tenant, row.run)).status == "running"
    await story.finish(row, "w0 w1 w2 w3 ")
    assert (await (await here.read(after)).rest()) == frames


async def test_a_full_window_stalls_nobody_who_has_all_there_is(story: StreamStory, here: Replica) -> None:
    """Nor one who is not connected: the time counts from when a frame cannot go out to a consumer that is there."""
    row = await story.asked(window=1)
    await story.say(row, "all")
    reader = await here.read(row)
    await reader.take()
    story.clock.advance(HOUR)
    assert await reader.is_silent(1), "the run is slow, not the consumer"
    await reader.close()
    await story.say(row, "hm", kind="reasoning_delta", index=1)
    again = await here.read(row)
    await again.take()
    assert await again.is_silent()
    story.clock.advance(SECOND)
    assert await again.is_silent()
    await again.close()
    assert (await story.now(row)).state is State.IN_PROGRESS


async def test_two_consumers_at_once_are_given_the_same(story: StreamStory, here: Replica, there: Replica) -> None:
    """Whoever of them numbers a frame; each goes at its own pace within the window that both move."""
    row = await story.asked(window=1000)
    readers = [await place.read(row) for place in (here, there, here, there)]
    reading = [asyncio.create_task(reader.rest()) for reader in readers]
    said = ""
    for n in range(60):
        await story.say(row, f"w{n} ")
        said += f"w{n} "
        if n % 3 == 0:
            await story.say(row, f"t{n}", kind="reasoning_delta", index=1)
    await story.finish(row, said)
    first, *others = await asyncio.gather(*reading)
    check_whole(first)
    assert text_of(first) == said
    assert all(other == first for other in others)
    assert [frame.to_json() for frame in first] == await story.frames(row)


async def test_what_was_numbered_and_not_sent_is_sent_by_another_process(
    story: StreamStory, here: Replica, there: Replica
) -> None:
    """A process that dies between numbering and sending, or between noting and sending, loses and repeats nothing."""
    row = await story.asked(window=8)
    await story.say(row, "one ")
    await story.say(row, "hm", kind="reasoning_delta", index=1)
    numbering = Numbering(here.parts)
    numbered = await numbering.advance(row)
    while numbered is not None and numbered.next_seq < 2:
        assert numbering.source is not None
        more = numbering.source.wants(8)
        assert more is not None
        await more
        numbered = await numbering.advance(numbered)
    await numbering.close()
    assert (await story.now(row)).sent == -1
    dying = await here.read(row)
    await dying.take(1)
    await dying.close()
    assert (await story.now(row)).sent == 1, "both frames were noted before the first went out"
    await story.say(row, "two")
    reader = await there.read(row, 0)
    await story.finish(row, "one two")
    frames = await reader.rest()
    check_whole([*dying.taken, *frames])
    assert text_of([*dying.taken, *frames]) == "one two"


async def test_a_cancel_at_another_process_ends_the_stream_at_once(
    story: StreamStory, here: Replica, there: Replica
) -> None:
    """What was not sent is dropped; the terminal frame is the next number; what the run says later is not told."""
    row = await story.asked(window=2)
    for n in range(3):
        await story.say(row, f"t{n}", kind="reasoning_delta", index=1)
        await story.say(row, f"w{n} ")
    reader = await here.read(row)
    await reader.take(2)
    assert await reader.is_silent()
    assert await end_stream(there.parts, row.id, DeltaType.CANCEL, {}, step=Step.CANCEL)
    frames = await reader.rest()
    check_whole(frames, ends="cancel")
    assert [frame.seq for frame in frames] == [0, 1, 2]
    assert not await end_stream(there.parts, row.id, DeltaType.CANCEL, {}, step=Step.CANCEL)
    await story.finish(row, "w0 w1 w2 ", status="cancelled")
    assert (await story.now(row)).state is State.CANCELLED
    assert await (await there.read(row)).rest() == frames


async def test_a_cancel_whose_process_died_is_told_by_whoever_reads(story: StreamStory, here: Replica) -> None:
    """The exchange's state says so, though there is no frame yet; likewise of an error."""
    for step, ends in ((Step.CANCEL, "cancel"), (Step.ERROR, "error")):
        row = await story.asked()
        reader = await here.read(row)
        await story.say(row, "word")
        await reader.take()
        error: JSONObject | None = {"code": "5.04", "message": "no", "retryable": True} if step is Step.ERROR else None
        await settle(story.database, story.tenant, row.id, step, now=story.clock.now, error=error)
        here.parts.signals.announce(row.id)
        frames = await reader.rest()
        check_whole(frames, ends=ends)
        assert frames[-1].payload.get("code") == ("5.04" if step is Step.ERROR else None)
        await story.finish(row, "word")


async def test_frames_that_others_dropped_are_nobodys(story: StreamStory, here: Replica) -> None:
    """A frame that was numbered and not sent is gone once the stream was ended, for a later reader too."""
    row = await story.asked(window=3)
    await story.say(row, "one")
    numbering = Numbering(here.parts)
    await numbering.advance(row)
    source = numbering.source
    assert source is not None
    while (await story.now(row)).next_seq == 0:
        more = source.wants(3)
        assert more is not None
        await more
        await numbering.advance(row)
    await numbering.close()
    assert await end_stream(here.parts, row.id, DeltaType.CANCEL, {}, step=Step.CANCEL)
    frames = await (await here.read(row)).rest()
    check_whole(frames, ends="cancel")
    assert len(frames) == 1


@pytest.mark.parametrize("cut", [1, 2, 3, 5])
async def test_a_stream_goes_on_inside_what_was_folded(
    story: StreamStory, here: Replica, there: Replica, cut: int
) -> None:
    """What was told of a content block before the log folded it is not told again, and nothing of it is lost."""
    row = await story.asked(window=1)
    reader = await here.read(row)
    said = ""
    for n in range(cut):
        await story.say(row, f"{n}é😀 ")
        said += f"{n}é😀 "
        (frame,) = await reader.take()
        await here.ack(row, frame.seq)
    for n in range(cut, 8):
        await story.say(row, f"{n} ", f"{n}' ")
        await story.say(row, f"t{n} ", kind="reasoning_delta", index=1)
        said += f"{n} {n}' "
    await story.finish(row, said)
    await reader.close()
    await story.fold(row)
    again = await there.read(await story.now(row), len(reader.taken) - 1)
    frames = [*reader.taken, *await again.rest(row)]
    check_whole(frames)
    assert text_of(frames) == said
    thoughts = "".join(str(frame.payload["text"]) for frame in frames if frame.payload.get("stage") == "thinking")
    assert thoughts == "".join(f"t{n} " for n in range(cut, 8))


async def test_a_reader_meets_what_was_folded_while_another_went_ahead(
    story: StreamStory, here: Replica, there: Replica
) -> None:
    """It has mapped a part of the block, the other has numbered more, and the log has the rest in one row."""
    row = await story.asked(window=1)
    reader = await here.read(row)
    await story.say(row, "a ")
    await reader.take()
    await story.say(row, "b ")
    assert await reader.is_silent(), "it has mapped the second row"
    await here.ack(row, 0)
    other = await there.read(row)
    await other.take(2)
    await reader.take()
    await story.say(row, "c ", "d ")
    await there.ack(row, 1)
    await other.take()
    await there.ack(row, 2)
    await story.say(row, "e ")
    await story.finish(row, "a b c d e ")
    await story.fold(row)
    frames = await reader.rest(row)
    check_whole(frames)
    assert text_of(frames) == "a b c d e "
    assert await other.rest() == frames


@pytest.mark.parametrize(
    ("status", "ends", "state"), [("failed", "error", "error"), ("cancelled", "cancel", "cancelled")]
)
async def test_each_way_a_run_ends_is_one_terminal_frame(
    story: StreamStory, here: Replica, status: str, ends: str, state: str
) -> None:
    """An error has the error object; who was cancelled by somebody else is told so."""
    row = await story.asked()
    await story.say(row, "so far")
    await story.finish(row, "", status=status)
    frames = await (await here.read(row)).rest()
    check_whole(frames, ends=ends)
    assert text_of(frames) == "so far"
    assert frames[-1].payload["run"] == row.run
    if ends == "error":
        assert (frames[-1].payload["code"], frames[-1].payload["message"]) == ("5.00", "it broke")
    assert (await story.now(row)).state.value == state


async def test_a_session_that_is_deleted_ends_its_streams(story: StreamStory, here: Replica, there: Replica) -> None:
    """One that is being read ends with the run's cancel or an error; nothing of it is left."""
    row = await story.asked(window=1)
    await story.say(row, "one")
    readers = [await here.read(row), await there.read(row)]
    for reader in readers:
        await reader.take()
    await story.say(row, "hm", kind="reasoning_delta", index=1)
    assert await readers[0].is_silent()
    keys = await mark_deleting(story.database, story.story.key, force=True)
    await delete_content(story.database, keys)
    await forget(story.database, keys)
    for place, reader in zip((here, there), readers, strict=True):
        place.parts.signals.announce(row.id)
        frames = await reader.rest()
        assert frames[-1].type in ("cancel", "error")
        assert [frame.seq for frame in frames] == [*range(len(frames))]
        if frames[-1].type == "error":
            assert frames[-1].payload["code"] == "4.10"
    assert await story.frames(row) == []


async def test_a_silent_stream_gives_signs_of_life(stack: Stack, story: StreamStory) -> None:
    """While the run thinks, and while it has not begun."""
    async with replica(stack, story.tenant, story.clock, silence=timedelta(seconds=0.1)) as place:
        waiting = await story.envelopes.opened()
        unbegun = await place.read(waiting)
        assert await unbegun.is_silent(5)
        await unbegun.close()
        row = await story.asked()
        reader = await place.read(row)
        assert await reader.is_silent(5)
        await story.say(row, "at last")
        await story.finish(row, "at last")
        check_whole(await reader.rest())


async def test_an_ask_that_begins_late_is_told_from_its_beginning(story: StreamStory, here: Replica) -> None:
    """Who reads before the run is there waits for it."""
    row = await story.envelopes.opened()
    reader = await here.read(row)
    assert await reader.is_silent(0.2)
    begun = await story.begun(row)
    here.parts.signals.announce(row.id)
    await story.say(begun, "now")
    await story.finish(begun, "now")
    check_whole(await reader.rest())


async def test_nobodys_stream_is_numbered_as_far_as_the_window_lets(story: StreamStory, here: Replica) -> None:
    """An answer that fits is complete, and can be read later; one that does not waits."""
    fits = await story.asked()
    await story.say(fits, "short")
    assert not await catch_up(here.parts, fits.id), "it goes on"
    await story.finish(fits, "short")
    assert await catch_up(here.parts, fits.id)
    assert (await story.now(fits)).state is State.COMPLETED
    check_whole(await (await here.read(await story.now(fits))).rest())
    assert await catch_up(here.parts, fits.id)


async def test_a_subscription_tells_each_event_until_it_is_cancelled(story: StreamStory, here: Replica) -> None:
    """Those that were there before it are not told; the window holds for it too."""
    ran = await story.asked()
    await story.say(ran, "before")
    before = (await story.story.head())["last_seq"]
    row = await story.subscribed(window=2)
    reader = await here.read(row)
    assert await reader.is_silent(0.2)
    await story.finish(ran, "before")
    frames: list[Delta] = []
    wanted = [event for event in await story.story.events() if event.seq > before]
    while len(frames) < len(wanted):
        (frame,) = await reader.take()
        frames.append(frame)
        await here.ack(row, frame.seq)
    assert [frame.type for frame in frames] == ["progress"] * len(wanted)
    events = [frame.payload["event"] for frame in frames]
    assert events == [{k: v for k, v in event.to_json().items() if k != "session"} for event in wanted]
    await end_stream(here.parts, row.id, DeltaType.CANCEL, {}, step=Step.CANCEL)
    check_whole(await reader.rest(), ends="cancel")


async def test_media_is_told_in_parts_before_the_end(story: StreamStory, here: Replica, there: Replica) -> None:
    """Stored media is read when a chunk of it is numbered; a consumer that was cut off inside it has all its bytes."""
    body = bytes(range(256)) * 800 + b"end"
    new = NewContent("image/png", body, "a tool")
    row_of_content, _ = await keep_content(story.database, story.tenant, new)
    row = await story.asked(window=2)
    await story.show(row, ToolMedia("image/png", content_id=row_of_content.id, size_bytes=len(body)).to_json())
    await story.finish(row, "")
    reader = await here.read(row)
    await reader.take(2)
    assert await reader.is_silent()
    await reader.close()
    assert (await story.now(row)).log_place["part"] == 1
    again = await there.read(await story.now(row), 1)
    await again.rest(row)
    frames = [*reader.taken, *again.taken]
    check_whole(frames)
    chunks = [frame.payload for frame in frames if frame.type == "chunk"]
    assert [chunk["item"] for chunk in chunks] == [0] * 5
    assert b"".join(b64decode(str(chunk["chunk_b64"])) for chunk in chunks) == body
    assert frames[-1].payload["media"] == [{"item": 0, "mime": "image/png", "bytes": len(body)}]


@pytest.mark.parametrize("resumes", [False, True])
async def test_media_that_is_deleted_meanwhile_ends_the_stream(
    story: StreamStory, here: Replica, there: Replica, resumes: bool
) -> None:
    """With an error, whoever reads: the bytes that it has begun to tell are gone. Before the run's end it is left out."""
    new = [NewContent("image/png", bytes([n]) * 100_000, "a tool") for n in range(3)]
    media = [(await keep_content(story.database, story.tenant, one))[0] for one in new]
    row = await story.asked(window=1)
    await story.show(row, *(ToolMedia("image/png", content_id=one.id).to_json() for one in media))
    await delete_stored(story.database, story.tenant, media[0].id)
    await story.finish(row, "")
    reader = await here.read(row)
    while (await reader.take())[0].type != "chunk":
        await here.ack(row, reader.taken[-1].seq)
    assert reader.taken[-1].payload["item"] == 0
    if resumes:
        await reader.close()
    await delete_stored(story.database, story.tenant, media[1].id)
    if resumes:
        again = await there.read(await story.now(row), reader.taken[-1].seq)
        frames = [*reader.taken, *await again.rest(row)]
    else:
        await here.ack(row, reader.taken[-1].seq)
        frames = await reader.rest(row)
    check_whole(frames, ends="error")
    assert frames[-1].payload["code"] == "5.00"
    assert (await story.now(row)).state is State.ERROR


async def test_a_text_that_is_not_what_the_chunks_said_is_signed_too(story: StreamStory, here: Replica) -> None:
    """The model has begun its message again: what was told cannot be taken back, and the end says what counts."""
    row = await story.asked()
    await story.say(row, "one two")
    await story.begin_again(row)
    await story.say(row, "three")
    await story.finish(row, "three")
    frames = await (await here.read(row)).rest()
    check_whole(frames)
    assert text_of(frames) == "one twothree"
    assert frames[-1].payload["text"] == "three"
    stages = [frame.payload.get("stage") for frame in frames[:-1]]
    assert stages == [None, "restarted", None]


async def test_who_does_not_ack_what_is_over_is_cut_off(story: StreamStory, here: Replica) -> None:
    """A consumer with a smaller window than it has asked with: nothing comes out of order, and it may come back."""
    row = await story.asked()
    await story.say(row, "hm", kind="reasoning_delta", index=1)
    await story.say(row, "word")
    await story.finish(row, "word")
    whole = await (await here.read(row)).rest()
    slow = await here.read(await story.now(row), window=1)
    await slow.take()
    assert await slow.is_silent()
    assert await slow.stalled(story.clock, STALL) == whole[:1]
    again = await here.read(await story.now(row), 0, window=1)
    assert await again.rest(row) == whole[1:]


async def test_streams_go_on_when_the_database_is_back(
    stack: Stack, story: StreamStory, here: Replica, there: Replica
) -> None:
    """PostgreSQL is killed while a stream is open: nothing is lost or repeated, and news from elsewhere is heard again."""
    row = await story.asked(window=1)
    reader = await here.read(row)
    await story.say(row, "one ")
    await reader.take()
    stack.kill("postgres")
    assert await reader.is_silent(), "nor does it end"

    async def is_back() -> bool:
        try:
            return (await story.now(row)).sent == 0
        except Exception as error:
            if not is_away(error):
                raise
            return False

    await eventually(is_back, what="PostgreSQL is back")
    await story.say(row, "two ")
    await there.ack(row, 0)
    await reader.take()
    await story.say(row, "hm", kind="reasoning_delta", index=1)
    await there.ack(row, 1)
    await story.finish(row, "one two ")
    frames = await reader.rest(row)
    check_whole(frames)
    assert text_of(frames) == "one two "
