"""The events of a sub-agent on their way to whoever reads its parent's stream, or its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from perdure.uap.agent_stream import AgentStreamEvent
from perdure.uap.lineage import Lineage
from perdure.upp.event_flow import Flow


class LineageFlow(Flow[AgentStreamEvent]):
    """A flow whose events go on to another one at once, each saying whose it is."""

    def __init__(
        self,
        flow: Flow[AgentStreamEvent],
        run: Lineage,
        path: tuple[str, ...] = (),
        call: str = "",
        behind: Callable[[AgentStreamEvent], Sequence[AgentStreamEvent]] | None = None,
    ) -> None:
        """Tell of a run.

        Args:
            flow: where the events go.
            run: whose they are.
            path: of events that are forwarded: the tool names from the stream's agent on.
            call: of events that are forwarded: the tool call's id.
            behind: what an event of the run is handed on as; None if as it is.
        """
        super().__init__()
        self._flow = flow
        self._parents = run.parents
        self._path = path
        self._call = call
        self._behind = behind

    async def send(self, events: Iterable[AgentStreamEvent]) -> None:
        await self._flow.send(self._handed_on(events))

    def post(self, events: Iterable[AgentStreamEvent]) -> None:
        self._flow.post(self._handed_on(events))

    def _handed_on(self, events: Iterable[AgentStreamEvent]) -> list[AgentStreamEvent]:
        if self._behind is None:
            return [self._marked(event) for event in events]
        return [self._marked(one) for event in events for one in self._behind(event)]

    def _marked(self, event: AgentStreamEvent) -> AgentStreamEvent:
        if event.path:  # a deeper one's, which was marked there
            return event
        uap = event.uap and replace(event.uap, data={**event.uap.data, **self._parents})
        return replace(event, uap=uap, path=self._path, call=self._call)


def forwarding(run: Lineage) -> LineageFlow | None:
    """The way of a sub-agent's events to its parent's stream; None if they are not wanted there."""
    parent = run.parent
    if parent is None or parent.sink is None:
        return None
    run.top, run.gives_events = parent.top, True
    is_session_own = run.session_run is not None and run.session_run is not parent.session_run
    behind = run.session_run.behind if run.session_run is not None and is_session_own else None
    return LineageFlow(parent.sink, run, run.path[run.top + 1 :], run.call, behind)
