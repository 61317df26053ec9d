"""What the activities of one worker share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from perdure.activities.contracts import CallToolInput, CallToolResult
from perdure.activities.lifeline import STORE_PATIENCE
from perdure.activities.permits import Permits
from perdure.errors import DamagedSession
from perdure.store.ancestry import read_ancestry
from perdure.store.answers import Writer
from perdure.store.content.tenant_contents import MAX_CONTENT_BYTES, TenantContents
from perdure.store.database import Database
from perdure.store.events import Announcer
from perdure.store.message_cache import MessageCache
from perdure.store.messages import read_message
from perdure.store.payments.ledger_gate import known_gates
from perdure.store.runs import read_options
from perdure.store.views import read_view
from perdure.uap.app import App
from perdure.uap.options import RunOptions
from perdure.uap.payments import PaymentGate
from perdure.uap.recent_bodies import RecentBodies
from perdure.uap.session_key import SessionKey
from perdure.uap.shared_limits import SharedLimits
from perdure.uap.spec import Limits
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message
from perdure.upp.prices import Price, PriceTable

T = TypeVar("T")

_RECENT = 64
_RECENT_BYTES = 64_000_000
_MEDIA_BYTES = 128_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run stands: its node, the position of its first message, and the session's epoch."""

    node: str
    start: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Before:
    """The messages before a run that stands in a place, oldest first; `settled`: see `perdure.uap.request.is_settled`."""

    place: Place
    messages: list[Message]
    settled: bool


AroundTool: TypeAlias = Callable[[CallToolInput, Callable[[], Awaitable[CallToolResult]]], Awaitable[CallToolResult]]


async def _as_it_is(_: CallToolInput, carry_out: Callable[[], Awaitable[CallToolResult]]) -> CallToolResult:
    return await carry_out()


@dataclass(slots=True)
class Services:
    """The store, the app and this process's caches.

    Attributes:
        database: the store.
        announcer: tells viewers of new events.
        cache: conversations.
        app: the agents.
        limits: frozen into the spec of each run that begins here.
        prices: what models cost.
        shared: limits that all workers keep together.
        bodies: of inside agents' stage sessions, by session and hash; all of them are in the store.
        kept: those that a run has written here, by run and hash.
        indexed: the namespace has the search attribute for stages.
        media: bytes of stored media, by tenant and hash.
        max_content_bytes: how many one piece of media may have.
        around_tool: carries out a tool call that no activity is made of; for traces.
    """

    database: Database
    announcer: Announcer
    cache: MessageCache
    app: App
    limits: Limits = field(default_factory=Limits)
    prices: PriceTable = field(default_factory=dict[str, Mapping[str, Price]])
    shared: SharedLimits = field(default_factory=SharedLimits)
    bodies: RecentBodies = field(default_factory=lambda: RecentBodies(_RECENT_BYTES))
    indexed: bool = False
    media: RecentBodies = field(default_factory=lambda: RecentBodies(_MEDIA_BYTES))
    max_content_bytes: int = MAX_CONTENT_BYTES
    around_tool: AroundTool = _as_it_is
    kept: OrderedDict[str, bool] = field(default_factory=OrderedDict[str, bool])
    _answers: OrderedDict[str, AssistantMessage] = field(default_factory=OrderedDict[str, AssistantMessage])
    _given: OrderedDict[str, JSONObject] = field(default_factory=OrderedDict[str, JSONObject])
    _options: OrderedDict[str, RunOptions] = field(default_factory=OrderedDict[str, RunOptions])
    _views: OrderedDict[str, list[dict[str, Any]] | None] = field(
        default_factory=OrderedDict[str, "list[dict[str, Any]] | None"]
    )
    _befores: OrderedDict[str, Before] = field(default_factory=OrderedDict[str, Before])
    _ancestries: OrderedDict[str, list[tuple[str, int]]] = field(
        default_factory=OrderedDict[str, "list[tuple[str, int]]"]
    )

    @property
    def gates(self) -> dict[str, PaymentGate]:
        """The payment gates of the app's agents, by name."""
        return known_gates(self.database, self.app.gate)

    def remember(self, message: str, answer: AssistantMessage) -> None:
        """Keep an answer at hand for the tool calls that follow it."""
        _put(self._answers, message, answer)

    def keep(self, run: str, hashes: Iterable[str]) -> None:
        """Note that a run has written these bodies: as long as it is active nobody takes them for unnamed."""
        for sha256 in hashes:
            _put(self.kept, f"{run}/{sha256}", True)

    def has_kept(self, run: str, sha256: str) -> bool:
        """Whether it has."""
        return f"{run}/{sha256}" in self.kept

    async def answer(self, key: SessionKey, message: str) -> AssistantMessage:
        """A stored answer.

        Raises:
            DamagedSession: it is not there.
        """
        known = self._answers.get(message)
        if known is not None:
            return known
        stored = await read_message(self.database, key, message)
        if stored is None or not isinstance(stored.message, AssistantMessage):
            raise DamagedSession(f"session {key.session} lacks message {message} whose tools are to be called")
        self.remember(message, stored.message)
        return stored.message

    async def options(self, writer: Writer) -> RunOptions:
        """The options of a run; they never change."""
        known = self._options.get(writer.run)
        if known is None:
            given = self._given.pop(writer.run, None)
            given = await read_options(self.database, writer.key, writer.run) if given is None else given
            known = RunOptions.from_json(given)
            _put(self._options, writer.run, known)
        return known

    def remember_options(self, run: str, options: JSONObject) -> None:
        """Keep the options of a run that begins at hand for its model calls."""
        _put(self._given, run, options)

    def contents(self, tenant: str) -> TenantContents:
        """The stored media of a tenant."""
        return TenantContents(self.database, tenant, self.media, self.max_content_bytes, patience=STORE_PATIENCE)

    def permits(self, writer: Writer, provider: str, model: str) -> Permits:
        """What a model call of a run must hold while it asks the provider."""
        buckets = self.shared.buckets(writer.key.tenant, provider, model)
        return Permits(self.database, buckets, writer, self.shared.lease_s)

    async def view(self, writer: Writer) -> list[dict[str, Any]] | None:
        """The view that the run's middleware left; it is made before the run's first step and never changes."""
        if writer.run not in self._views:
            _put(self._views, writer.run, await read_view(self.database, writer))
        return self._views[writer.run]

    def before(self, run: str, place: Place) -> Before | None:
        """What is known to stand before a run; None if nothing is."""
        known = self._befores.get(run)
        return known if known is not None and known.place == place else None

    def remember_before(self, run: str, before: Before) -> None:
        """Keep it at hand for the model calls of the run."""
        _put(self._befores, run, before)

    def forget_before(self, run: str) -> None:
        """A run that has ended needs it no longer."""
        self._befores.pop(run, None)

    async def ancestry(self, key: SessionKey, node: str, start: int) -> list[tuple[str, int]]:
        """A node's ancestors, root first, and where the way to it leaves each, for its run from `start` on."""
        name = f"{key.workflow_id}/{node}/{start}"
        if name not in self._ancestries:
            _put(self._ancestries, name, await read_ancestry(self.database, key, node))
        return self._ancestries[name]


def _put(cache: OrderedDict[str, T], name: str, value: T) -> None:
    cache[name] = value
    while len(cache) > _RECENT:
        cache.popitem(last=False)
