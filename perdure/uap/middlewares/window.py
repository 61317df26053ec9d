"""Which of the last messages of a conversation fit into a limit, without tearing calls from their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from perdure.upp.content import ReasoningBlock, TextBlock
from perdure.upp.json_value import dumps
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage

CHARACTERS_PER_TOKEN = 4
MEDIA_TOKENS = 1500


def estimate_tokens(message: Message) -> int:
    """About how many tokens a message takes: one for each 4 characters, 1,500 for each image or other medium."""
    blocks = message.blocks()
    texts = [block.text for block in blocks if isinstance(block, TextBlock | ReasoningBlock)]
    calls = message.tool_calls or [] if isinstance(message, AssistantMessage) else []
    characters = sum(map(len, texts)) + sum(len(call.tool_name) + len(dumps(call.arguments)) for call in calls)
    return -(-characters // CHARACTERS_PER_TOKEN) + MEDIA_TOKENS * (len(blocks) - len(texts))


def window_start(
    messages: Sequence[Message],
    *,
    max_messages: int | None,
    max_tokens: int | None,
    count: Callable[[Message], int] = estimate_tokens,
) -> int:
    """Where the window begins: as early as the limits allow, 0 if everything fits, the length if nothing does.

    A window that does not hold everything begins with what a user said, as vendors want it; if none of that fits, at
    the model's words, but never between calls and their results.

    Args:
        messages: oldest first.
        max_messages: how many fit; None for any number.
        max_tokens: how many of what `count` counts fit; None for any number.
        count: a message's tokens.
    """
    tokens = [0, *accumulate(map(count, reversed(messages)))] if max_tokens is not None else []

    def fits(start: int) -> bool:
        kept = len(messages) - start
        return (max_messages is None or kept <= max_messages) and (max_tokens is None or tokens[kept] <= max_tokens)

    if fits(0):
        return 0
    starts = [place for place in range(len(messages)) if fits(place) and not _is_inside(messages, place)]
    said = (place for place in starts if isinstance(messages[place], UserMessage))
    return next(said, starts[0] if starts else len(messages))


def _is_inside(messages: Sequence[Message], place: int) -> bool:
    """Whether results after a place answer calls before it."""
    rest = iter(messages[place:])
    following = next((message for message in rest if not isinstance(message, UserMessage)), None)
    return isinstance(following, ToolResultMessage)
