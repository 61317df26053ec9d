"""What handing in an input costs the database: a session is opened in few statements, and is as whole as any."""

from __future__ import annotations

import uuid

from perdure.store.inputs import submit
from perdure.store.sessions import read_nodes, read_session
from perdure.store.submission import Submission
from perdure.upp.messages import UserMessage
from tests.integration.durable_sessions import make_database
from tests.integration.page_plans import Watched
from tests.integration.stack import Stack

TENANT = "cheap"


async def test_an_input_opens_its_session_in_three_statements(stack: Stack) -> None:
    """Session, root node and head row are one; a client's own key is looked up first. The next input is the second."""
    watched = Watched(await make_database(stack, f"cheap_{uuid.uuid4().hex}"))
    try:
        given = Submission(TENANT, "agent", "agent", UserMessage("hello"), str(uuid.uuid4()), key_is_drawn=True)
        opened = await submit(watched, given)
        assert (len(watched.sent), opened.ordinal) == (3, 1)
        assert (await read_session(watched, opened.key)).agent == "agent"
        assert [node.name for node in await read_nodes(watched, opened.key)] == ["main"]
        more = Submission(TENANT, "agent", "agent", UserMessage("more"), "a key", session=opened.key.session)
        assert (await submit(watched, more)).ordinal == 2
        watched.sent = []
        await submit(watched, Submission(TENANT, "agent", "agent", UserMessage("hello"), "my key"))
        assert len(watched.sent) == 4
    finally:
        await watched.close()
