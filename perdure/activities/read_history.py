"""`read_history`: the messages before a run, cut, for a strategy of the user's own."""

from __future__ import annotations

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.contracts import ReadHistoryInput, ReadHistoryResult
from perdure.activities.conversation import messages_before
from perdure.activities.lifeline import STORE_PATIENCE, beating, writer_of
from perdure.activities.services import Place, Services
from perdure.errors import LimitExceeded
from perdure.store.database import keep_trying
from perdure.uap.cut import cut_message
from perdure.upp.json_value import JSONObject, dumps
from perdure.upp.messages import Message

MOST_BYTES = 1_500_000


class ReadHistory:
    """The histories that one worker reads."""

    def __init__(self, services: Services) -> None:
        """Read from the store of `services`."""
        self._services = services

    @activity.defn(name=contracts.READ_HISTORY)
    async def read_history(self, call: ReadHistoryInput) -> ReadHistoryResult:
        """Read what is before the run.

        Raises:
            LimitExceeded: it is more than a workflow may hold.
        """
        async with beating():
            writer = writer_of(call.tenant, call.session, call.run)
            place = Place(call.node, call.start, call.epoch)

            async def read() -> list[Message]:
                return await messages_before(self._services, writer, place, await self._services.options(writer))

            messages = [cut_message(item).to_json() for item in await keep_trying(read, deadline=STORE_PATIENCE)]
            _check_size(messages)
            return ReadHistoryResult(messages)


def _check_size(messages: list[JSONObject]) -> None:
    size = sum(len(dumps(item)) for item in messages)
    if size > MOST_BYTES:
        raise LimitExceeded(
            f"the conversation has {len(messages)} messages, {size} bytes with all long parts cut; a strategy of your own "
            f"gets at most {MOST_BYTES}: use memory(...) middleware to shorten it",
            code="max_history",
        )
