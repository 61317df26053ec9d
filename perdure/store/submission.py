"""One input, as a client hands it in: what `perdure.store.inputs` stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from perdure.store.opening import Opening, content_of, digest_of
from perdure.store.policies import ENQUEUE, MAX_QUEUED
from perdure.uap.options import RunOptions
from perdure.uap.rewriting import Rewrite
from perdure.uap.session_limits import SessionLimits
from perdure.upp.json_value import JSONObject, JSONValue, dumps
from perdure.upp.messages import Message


@dataclass(frozen=True, slots=True)
class Submission:
    """One input, as a client hands it in.

    Attributes:
        tenant: whose it is.
        agent: the agent's name.
        agent_id: the agent's id, for a session that this input opens.
        session: the session's id; None opens a session, the same one for the same key.
        create: open the named session if it does not exist.
        message: the user's message.
        key: idempotency key; the same key again is the same run.
        key_is_drawn: nobody else knows the key, so that no earlier input can have it.
        options: the run's options.
        not_before: take it no earlier.
        title: of a session that this input opens.
        metadata: likewise.
        history: likewise: what was said before, oldest first.
        limits: likewise: what its runs may use together.
        rewrite: what the thread is to be when its turn comes; None if it goes on as it is.
        policy: what it does while a run is active, see `perdure.store.policies`.
        max_queue: how many inputs may wait in the session, at most.
        trace: the span that hands it in, a W3C traceparent, if there is one.
        stage: stage session and ordinal of the action whose task the run is. It opens its session, which takes no other
            input until the action is settled.
    """

    tenant: str
    agent: str
    agent_id: str
    message: Message
    key: str
    key_is_drawn: bool = False
    session: str | None = None
    create: bool = False
    options: RunOptions = RunOptions()
    not_before: datetime | None = None
    title: str | None = None
    metadata: Mapping[str, JSONValue] | None = None
    history: Sequence[Message] = ()
    limits: SessionLimits | None = None
    rewrite: Rewrite | None = None
    policy: str = ENQUEUE
    max_queue: int = MAX_QUEUED
    trace: str | None = None
    stage: tuple[str, int] | None = None

    @property
    def opening(self) -> Opening:
        """The session that this input opens."""
        return Opening(self.agent, self.agent_id, self.history, self.title, self.metadata, self.limits)

    @property
    def body(self) -> bytes:
        """What must be equal for two submits under one key to be the same: message content and options, not ids."""
        body: JSONObject = {"message": content_of(self.message), "options": self.options.to_json()}
        if self.history:
            body["history"] = digest_of(self.history)
        if self.rewrite is not None:
            thread = self.rewrite.thread
            body["thread"] = [None if thread is None else digest_of(thread), digest_of(self.rewrite.before)]
        return dumps(body)
