"""Changes of a session's thread tree, and runs that go on from a checkpoint. Each is an input, in the order of all others."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from perdure.activities.border import from_description
from perdure.activities.redaction import clean_options
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.session_servers import SessionServers, address_of
from perdure.store import change_inputs
from perdure.store.accepted import Accepted
from perdure.store.change_inputs import Change
from perdure.store.events import Event
from perdure.store.inputs import CHANGED, REFUSED
from perdure.store.sessions import find_address
from perdure.uap.ids import derive_id, new_id
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from perdure.upp.redaction import known_secrets


class SessionChanges(SessionServers):
    """What programs do to the thread trees of sessions."""

    async def change(
        self, session: str, kind: str, detail: JSONObject, *, key: str | None = None, wait_s: float = 10
    ) -> JSONObject:
        """Hand in a change of a session's thread tree, and wait until it is made.

        It stands in the order of the session's inputs: what was submitted before is run before.

        Args:
            session: which.
            kind: "fork", "checkout", "merge" or "restore".
            detail: {"node", "name", "id"}, {"node"}, {"source", "target"} or {"checkpoint"}; of a fork only the node is
                needed.
            key: idempotency key; the same key again is the same change. Drawn if not given.
            wait_s: seconds to wait.

        Returns:
            What was changed: {"input", "kind", "node" (the node that it made or went to), "current" (the current node
            from now on), ...}; {"state": "recorded", "input", "run"} if no worker has come to it in time, where `run`
            is what `cancel` takes back.

        Raises:
            InvalidInput: the change cannot be made, as where there is no such node or checkpoint; nothing was changed.
            KeyConflict: the key was used with another input.
            UnknownSession: there is no such session.
            SessionGone: the session is being deleted.
        """
        accepted = await self._hand_in(session, Change(kind, detail, new_id() if key is None else key))
        known = await change_inputs.read_outcome(self.database, accepted.key, accepted.ordinal)
        event = known or await self._outcome(accepted, wait_s)
        if event is None:
            return {"state": "recorded", "input": accepted.ordinal, "run": accepted.run}
        if event.type == REFUSED:
            error = event.data.get("error")
            raise from_description(error if isinstance(error, dict) else {})
        return event.data

    async def fork(
        self, session: str, node: str, name: str | None = None, *, id: str | None = None, key: str | None = None
    ) -> str:
        """Make a branch of a tree node and return its id; the current node stays what it is.

        Args:
            session: which.
            node: what the branch goes on from.
            name: of the branch, for people.
            id: of the branch, a UUIDv4; drawn if left out, the same one for the same key. It is returned even if no
                worker has come to it yet.
            key: idempotency key.

        Raises:
            InvalidInput: there is no such node, or the id cannot be used.
        """
        drawn = new_id() if key is None else derive_id(session, "fork", key)
        own = drawn if id is None else id
        await self.change(session, "fork", _detail(node=node, name=name, id=own), key=key)
        return own

    async def checkout(self, session: str, node: str, *, key: str | None = None) -> JSONObject:
        """Make a node the current one; see `change`."""
        return await self.change(session, "checkout", {"node": node}, key=key)

    async def merge(self, session: str, source: str, target: str, *, key: str | None = None) -> JSONObject:
        """Add to one node what another's history has and its own lacks; see `ThreadTree.merge` and `change`."""
        return await self.change(session, "merge", {"source": source, "target": target}, key=key)

    async def restore(self, session: str, checkpoint: str, *, key: str | None = None) -> JSONObject:
        """Go back to a checkpoint: the next run's history ends where it was taken; see `change`.

        What was said since stays on its branch, untouched.
        """
        return await self.change(session, "restore", {"checkpoint": checkpoint}, key=key)

    async def resume_run(
        self, session: str, checkpoint: str | None = None, options: RunOptions | None = None, *, key: str | None = None
    ) -> RunHandle:
        """Go on with the run that a checkpoint is of, from the step after it, on a branch of its own.

        A run that needs no further step gives its turn again.

        Args:
            session: which.
            checkpoint: its id; None for the current one, when it comes to that.
            options: for what is left of the run.
            key: idempotency key; the same key again is the same run. Drawn if not given.

        Returns:
            The run; its result raises InvalidInput if there is no such checkpoint.
        """
        change = Change("resume", _detail(checkpoint=checkpoint), new_id() if key is None else key, options)
        return RunHandle(self, await self._hand_in(session, change))

    async def _hand_in(self, session: str, change: Change) -> Accepted:
        key = self.key_of(session)
        address = address_of(key, await find_address(self.database, key))
        accepted = await change_inputs.submit_change(self.database, key, without_secrets(change))
        self.announcer.changed(key)
        if accepted.status == "queued" and not accepted.paused:
            await self.wake(address)
        return accepted

    async def _outcome(self, accepted: Accepted, wait_s: float) -> Event | None:
        key: SessionKey = accepted.key
        try:
            async with asyncio.timeout(wait_s):
                async for event in self.stream.follow(key, after=accepted.after_seq):
                    if event.type in (CHANGED, REFUSED) and event.data.get("input") == accepted.ordinal:
                        return event
        except TimeoutError:
            pass
        return None


def without_secrets(change: Change) -> Change:
    """A change as it is stored."""
    options = None if change.options is None else clean_options(change.options)
    return replace(change, detail=known_secrets.json(change.detail), options=options)


def _detail(**values: str | None) -> JSONObject:
    return {name: value for name, value in values.items() if value is not None}
