"""Sessions and runs as programs use them: submit, follow, wait, control, answer."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import cast

from perdure.activities.redaction import clean_message, clean_messages, clean_metadata, clean_options
from perdure.errors import InvalidInput, ServerUnavailable
from perdure.runtime.content import known_references
from perdure.runtime.control import Controlled, Deleted, SessionControl
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.session_changes import SessionChanges
from perdure.runtime.session_servers import address_of
from perdure.runtime.session_transfer import SessionTransfer
from perdure.runtime.stages import Stages
from perdure.runtime.temporal import SessionAddress, tell_target, wake
from perdure.runtime.trace_context import submitting
from perdure.runtime.waits import SessionWaits
from perdure.store import inputs
from perdure.store.accepted import Accepted
from perdure.store.agents import find_agent
from perdure.store.policies import ENQUEUE, MAX_QUEUED, ROLLBACK, STEER
from perdure.store.runs import find_run
from perdure.store.submission import Submission
from perdure.testing.crash import crash_point
from perdure.uap.ids import new_id
from perdure.uap.options import RunOptions
from perdure.uap.rewriting import Rewrite, sound_rewrite
from perdure.uap.session_key import checked_session_id, known_session_id
from perdure.uap.session_limits import SessionLimits
from perdure.upp.json_value import JSONValue, dumps
from perdure.upp.messages import Message, UserMessage
from perdure.upp.redaction import known_secrets

__all__ = ["Controlled", "Deleted", "RunHandle", "Sessions"]

logger = logging.getLogger(__name__)


class Sessions(SessionChanges, SessionTransfer, SessionControl, SessionWaits):
    """The sessions of one tenant, by their rows and their workflows."""

    @property
    def stages(self) -> Stages:
        """The tenant's stage sessions, by the same servers. Not to be closed."""
        return Stages(self.client, self.database, self.tenant, announcer=self.announcer, stream=self.stream)

    async def submit(
        self,
        agent: str,
        message: str | Message,
        *,
        session: str | None = None,
        create: bool = False,
        key: str | None = None,
        options: RunOptions | None = None,
        history: Sequence[Message] = (),
        not_before: datetime | None = None,
        title: str | None = None,
        metadata: Mapping[str, JSONValue] | None = None,
        limits: SessionLimits | None = None,
        thread: Sequence[Message] | None = None,
        before: Sequence[Message] = (),
        policy: str = ENQUEUE,
        max_queue: int | None = None,
    ) -> RunHandle:
        """Hand in an input. When this returns it is stored, and will be run whatever happens.

        The handle's `accepted` says what it does: `action`, `target` and its `place` in the queue.

        Args:
            agent: the agent's name; a worker must have registered it.
            message: text, or a user's message.
            session: go on in this session; None opens one.
            create: open `session` if it does not exist.
            key: idempotency key; the same key again answers the same run. Drawn if not given.
            options: what this run does otherwise than its agent says.
            history: what was said before, oldest first, in a session that this opens; see `open`.
            not_before: the run begins no earlier.
            title: of a session that this opens.
            metadata: likewise.
            limits: likewise: what all its runs may use together.
            thread: all that the session's thread is to hold when the input's turn comes, oldest first; None if it goes on
                as it is. What both begin with stays, whatever ids and times its messages have; where they differ a branch
                is opened and checked out, and the rest is written to it.
            before: messages that stand between the thread and the input, oldest first.
            policy: what it does while a run is active. "enqueue": waits for its turn. "reject": is refused. "interrupt":
                has that run cancelled and is taken next, before all that waits. "rollback": the same, and goes on, on a new
                branch, from what stood before that run. "steer": joins that run before its next model call; if the run
                ends first, or its strategy is of the user's own, it is a run of its own under the same id.
            max_queue: how many inputs may wait in the session; `perdure.store.policies.MAX_QUEUED` if not given.

        Raises:
            InvalidInput: an id, key or message that cannot be used; or a thread with a tool's result that belongs to no
                call, or with a history, or with a policy besides that takes the run elsewhere.
            UnknownAgent: no worker has registered the agent.
            UnknownContent: a message refers to stored media that is not there.
            UnknownSession: no such session, or it is another agent's.
            KeyConflict: the key was used with another input, or the session was opened with another history.
            SessionGone: the session is being deleted.
            RunActive: it is a sub-agent's session, and the run that called it is open; or the policy is "reject" and a
                run is active or about to begin. Nothing was stored, and the key is unused.
            QueueFull: as many inputs wait as may; likewise.
            SessionLimitReached: the session's runs have used all that they may; likewise.
        """
        given = UserMessage(message) if isinstance(message, str) else message
        if not isinstance(given, UserMessage):
            raise InvalidInput("an input must be a user's message")
        _check_json(given, options, metadata)
        (given,), history = await known_references(self, [given]), await known_references(self, history)
        rewrite = Rewrite(
            None if thread is None else await known_references(self, thread), await known_references(self, before)
        )
        _check_rewrite(rewrite, policy, other=bool(history) or (options or RunOptions()).history is not None)
        root = agent if session is None or create else agent.partition("/")[0]  # a sub-agent's session is a path's
        row = await find_agent(self.database, self.tenant, root)
        submission = Submission(
            tenant=self.tenant,
            agent=agent,
            agent_id=row.agent_id,
            message=clean_message(given),
            key=new_id() if key is None else key,
            key_is_drawn=key is None,
            session=session if session is None else (checked_session_id if create else known_session_id)(session),
            create=create,
            options=clean_options(options or RunOptions()),
            history=clean_messages(history),
            not_before=not_before,
            title=known_secrets.json(title),
            metadata=clean_metadata(metadata),
            limits=limits,
            rewrite=None if rewrite.is_nothing else _clean_rewrite(sound_rewrite(rewrite)),
            policy=policy,
            max_queue=MAX_QUEUED if max_queue is None else max_queue,
        )
        with submitting(agent) as trace:
            accepted = await inputs.submit(self.database, replace(submission, trace=trace))
        crash_point("submit.stored")
        self.announcer.changed(accepted.key)
        if accepted.status == "queued":
            await self._tell(accepted, address_of(accepted.key, replace(row, name=agent)))
        return RunHandle(self, accepted)

    async def _tell(self, accepted: Accepted, address: SessionAddress) -> None:
        """Let the session know of an input; where Temporal is away a worker's sweep does it later."""
        try:
            if accepted.target is not None:
                await tell_target(self.client, address, accepted.action, accepted.run, accepted.target)
            elif not accepted.paused:
                await wake(self.client, address)
        except ServerUnavailable as error:  # the row is the acknowledgement
            logger.warning("input.wake_deferred session=%s %s", address.key.session, error)

    async def run(self, run: str) -> RunHandle:
        """A handle for a run by its id.

        Raises:
            UnknownRun: there is none.
        """
        row = await find_run(self.database, self.tenant, run)
        after = 0 if row.first_seq is None else row.first_seq - 1
        accepted = Accepted(row.key, row.id, row.ordinal, row.status, repeated=True, paused=False, after_seq=after)
        return RunHandle(self, accepted)


def _check_rewrite(rewrite: Rewrite, policy: str, *, other: bool) -> None:
    """See that an input may say what the thread before it is. Raises InvalidInput."""
    if rewrite.is_nothing:
        return
    if other:
        raise InvalidInput("give the history, or the thread with what stands before the input, not both")
    if policy in (ROLLBACK, STEER):
        raise InvalidInput(f"the policy {policy!r} goes on from where a run stands; with a thread use {ENQUEUE!r}")


def _clean_rewrite(rewrite: Rewrite) -> Rewrite:
    thread = rewrite.thread
    return Rewrite(None if thread is None else clean_messages(thread), clean_messages(rewrite.before))


def _check_json(message: Message, options: RunOptions | None, metadata: Mapping[str, JSONValue] | None) -> None:
    """See that what is to be stored can be. Raises InvalidInput, which names the part that cannot."""
    given: dict[str, object] = {"the message's metadata": message.metadata, "metadata": dict(metadata or {})}
    for name, value in {**given, **(options.to_json() if options else {})}.items():
        try:
            dumps(cast(JSONValue, value))
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{name} cannot be stored as JSON: {error}; give plain values") from error
