"""The actions of a stream that was read: what is complete, in the server's order and numbers where it told them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.protocols.threadprotocol.models import AnyAction
from perdure.protocols.threadprotocol.recording import Recording
from perdure.protocols.threadprotocol.stream_drafts import Draft
from perdure.protocols.threadprotocol.stream_notes import Note, streamed
from perdure.upp.json_value import JSONObject, JSONValue

_WITH_AGENT = ("assistant_message", "thinking", "tool_call")


def finished_actions(
    drafts: Sequence[Draft],
    notes: Mapping[tuple[str, str], Note],
    agent_id: str,
    at: str | None,
    not_before: str,
    first: int,
    *,
    complete: bool,
) -> list[AnyAction]:
    """The actions of the drafts.

    Args:
        drafts: in the order in which they were begun.
        notes: what the server told, by the type and ref of the action.
        agent_id: whose actions they are, where no note says so.
        at: when they were, where no note says so.
        not_before: the time above.
        first: the first number, unless notes number them all.
        complete: whether the stream came to its proper end.
    """
    told = [(draft, _note_of(draft, notes)) for draft in drafts]
    told = [pair for pair in told if _is_kept(pair[0], drafts, is_noted=pair[1] is not None, complete=complete)]
    sequences = [note.sequence for _, note in told if note is not None]
    if sequences and len(sequences) == len(told):
        told.sort(key=lambda pair: 0 if pair[1] is None else pair[1].sequence)
        first = min(sequences)
    recording = Recording(first=first, not_before=not_before)
    for draft, note in told:
        fields = _members(draft, note)
        if draft.action_type in _WITH_AGENT:
            fields["agent_id"] = agent_id if note is None or note.agent_id is None else note.agent_id
        recording.add(draft.action_type, fields, at if note is None else note.timestamp)
    return recording.actions


def _is_kept(draft: Draft, drafts: Sequence[Draft], *, is_noted: bool, complete: bool) -> bool:
    match draft.action_type:
        case "thinking":
            return draft.has_complete_block
        case "tool_call":
            return complete or any(draft.refs == other.refs for other in drafts if other.action_type == "tool_return")
        case "assistant_message":
            return draft.has_complete_block and (is_noted or draft.content != "" or not _others(draft, drafts))
        case _:
            return True


def _others(draft: Draft, drafts: Sequence[Draft]) -> bool:
    """Whether the response did anything else than say nothing."""
    return any(
        other.step == draft.step and other.action_type in ("thinking", "tool_call") and other is not draft
        for other in drafts
    )


def _note_of(draft: Draft, notes: Mapping[tuple[str, str], Note]) -> Note | None:
    return next((notes[draft.action_type, ref] for ref in draft.refs if (draft.action_type, ref) in notes), None)


def _members(draft: Draft, note: Note | None) -> JSONObject:
    fields = dict(draft.fields)
    if draft.action_type == "assistant_message":
        content: JSONValue = draft.content if isinstance(draft.content, str) else [*draft.content]
        fields["content"] = content
    elif draft.action_type == "thinking":
        fields = {"provider_name": "unknown"} | fields
        if draft.content != "":
            fields["content"] = str(draft.content)
    if note is None:
        return fields
    if note.whole:
        return dict(note.fields)
    return {name: fields[name] for name in streamed(draft.action_type) if name in fields} | note.fields
