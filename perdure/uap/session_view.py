"""What a session shows of itself at any time, without waiting: the same wherever it lives."""

from __future__ import annotations

from perdure.uap.agent import Agent
from perdure.uap.hooks import state_copy
from perdure.uap.ids import new_id
from perdure.uap.session_checkpoints import Checkpoint, CheckpointList
from perdure.uap.session_document import SessionDocument
from perdure.uap.session_json import VERSION
from perdure.uap.session_options import Interval, SessionOptions, json_metadata
from perdure.uap.session_saving import SessionSaving
from perdure.uap.session_usage import SessionUsage
from perdure.uap.state import ExecutionState
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.json_value import JSONObject, jsonable
from perdure.upp.timestamp import format_timestamp, now
from perdure.upp.usage import TokenUsage


class SessionView:
    """A session's parts.

    Attributes:
        agent: whose session it is.
        thread_tree: the conversation; it may be branched, merged and checked out between runs.
        metadata: the user's own data, JSON. Threads of `query` inside a run are under `queries`, by thread id.
    """

    def __init__(
        self, agent: Agent, options: SessionOptions, document: SessionDocument | None, tree: ThreadTree
    ) -> None:
        self._id = (options.id or new_id()) if document is None else document.id
        self.agent = agent
        self._agent_id = agent.id if document is None else document.agent_id
        self.thread_tree = tree
        self.metadata = json_metadata(options.metadata) if document is None else document.metadata
        self._checkpoints = CheckpointList() if document is None else document.checkpoints
        self._interval: Interval | None = options.interval
        self._created_at = self._updated_at = format_timestamp(now())
        if document is not None:
            self._created_at, self._updated_at = document.created_at, document.updated_at
        self._saving = SessionSaving(self._id, self.to_json, options.persistence)
        self._usage = SessionUsage()
        self._limits = options.limits
        self._steps: int = 0
        self._seconds: float = 0.0

    @property
    def id(self) -> str:
        """A UUIDv4, unless another system wrote it."""
        return self._id

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, oldest first, those of failed runs and left branches too; a list of the caller's own."""
        return list(self._checkpoints.items)

    @property
    def current_checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint, or the one restored after it; None before the first."""
        return self._checkpoints.current

    @property
    def state(self) -> ExecutionState | None:
        """What the run had come to at the current checkpoint, as a copy; None before the first."""
        current = self.current_checkpoint
        return None if current is None else state_copy(current.state)

    @property
    def usage(self) -> TokenUsage:
        """Tokens of all runs, of failed ones and of sub-agents too; without single model calls.

        A session in process counts from when this object was made, since its document has no place for it.
        """
        return self._usage.total

    @property
    def usage_by_agent(self) -> dict[str, TokenUsage]:
        """The same by the path of the agent that used them: the session's own, and those of its sub-agents."""
        return dict(self._usage.by_agent)

    def to_json(self) -> JSONObject:
        """Returns UAP's SessionJSON, which shares nothing with the session. Source: UAP-1.0 section 13.1.

        Raises:
            InvalidInput: metadata holds something that is not JSON.
        """
        return {
            "version": VERSION,
            "id": self._id,
            "agentId": self._agent_id,
            "createdAt": self._created_at,
            "updatedAt": self._updated_at,
            "threadTree": jsonable(self.thread_tree.to_json()),
            "checkpoints": CheckpointList(self.checkpoints, self.current_checkpoint).to_json(),
            "metadata": json_metadata(self.metadata),
        }
