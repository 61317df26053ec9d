"""Running agents in this process, with their middleware around them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from perdure.errors import RunCancelled
from perdure.inprocess.effects import MemoryEffects
from perdure.inprocess.own_effects import MemoryOwnEffects
from perdure.inprocess.run_time import in_time
from perdure.inprocess.stages import MemoryStages
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult, is_aborted
from perdure.uap.held_flow import HeldFlow
from perdure.uap.hooks import Hook
from perdure.uap.lineage import Lineage, current, running
from perdure.uap.lineage_flow import LineageFlow, forwarding
from perdure.uap.middleware import MiddlewareContext, holds_deltas, run_pipeline
from perdure.uap.options import RunOptions
from perdure.uap.run_limits import check_start
from perdure.uap.run_turn import spoken
from perdure.uap.scaffold import NAMESPACE
from perdure.uap.spent import Spent
from perdure.uap.state import ExecutionState
from perdure.uap.strategy import StrategyContext
from perdure.uap.structure import structure_of, with_data
from perdure.upp.event_flow import Flow
from perdure.upp.messages import Message
from perdure.upp.prices import PriceTable
from perdure.upp.turn import Turn
from perdure.workflows.strategies import build
from perdure.workflows.strategies.loop import too_many_rounds


class InProcessHost:
    """Runs agents here, in memory.

    Args:
        prices: what models cost; by default nothing is known.
    """

    def __init__(self, prices: PriceTable | None = None) -> None:
        self._prices = prices or {}

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        """See `Host.run`."""
        with running(agent, options) as run:
            return await self._surrounded(run, self._context(run, history, message), forwarding(run))

    async def resume(
        self, agent: Agent, history: Sequence[Message], state: ExecutionState, options: RunOptions
    ) -> Turn:
        """See `ResumingHost.resume`."""
        with running(agent, options) as run:
            around = self._context(run, history, state.messages[0])
            around.spent = Spent.by(state)
            return await self._surrounded(run, around, forwarding(run), state)

    def stream(
        self,
        agent: Agent,
        history: Sequence[Message],
        message: Message,
        options: RunOptions,
        *,
        sub_agents: bool = False,
    ) -> AgentStreamResult:
        """See `Host.stream`. The reader sets the pace: nothing is asked of the model beyond what was read."""

        async def work(flow: Flow[AgentStreamEvent]) -> Turn:
            with running(agent, options) as run:
                own = flow if run.parent is None else LineageFlow(flow, run)
                run.gives_events = sub_agents
                return await self._surrounded(run, self._context(run, history, message), own, abortable=True)

        return AgentStreamResult(work, [message])

    async def _surrounded(
        self,
        run: Lineage,
        around: MiddlewareContext,
        flow: Flow[AgentStreamEvent] | None,
        state: ExecutionState | None = None,
        *,
        abortable: bool = False,
    ) -> Turn:
        """The turn of a run with its middleware around it.

        Args:
            run: what runs.
            around: for the middleware.
            flow: to the reader of its events; None if it has none.
            state: of a run that is gone on with.
            abortable: a reader may end the run, which then has a partial turn.
        """
        held = HeldFlow(flow) if flow is not None and holds_deltas(run.agent.middleware) else None
        run.sink = (held or flow) if run.gives_events else None
        made: list[Turn] = []
        thread = around.history

        async def execute(context: MiddlewareContext) -> Turn:
            run.context = context
            kind = MemoryEffects if run.agent.custom is None else MemoryOwnEffects
            effects = kind(context, run.options, self._prices, held or flow)
            if run.agent.staged is not None:
                inside = run.session_run
                session = effects.run if inside is None else inside.session.id
                effects.stages = MemoryStages(run.agent, run.options, thread, session)
            if state is not None:
                effects.state = state
            run.count(effects.state)
            try:
                made.append(await self._run(effects, run.agent, effects.state.messages[0], run.options))
            except asyncio.CancelledError:
                if not abortable:
                    raise
                if not is_aborted():
                    raise RunCancelled("the run was cancelled from within", run_id=effects.run) from None
                made.append(effects.partial_turn())
            return made[0]

        turn = await run_pipeline(run.agent.middleware, around, execute)
        if held is not None and made:
            held.release(made[0], turn)
        return turn

    def _context(self, run: Lineage, history: Sequence[Message], message: Message) -> MiddlewareContext:
        inside = run.session_run
        return MiddlewareContext(
            agent=run.agent,
            input=message,
            history=list(history),
            metadata={NAMESPACE: run.ids},
            session=None if inside is None else inside.session,
            used=run.count_around(self._prices),
        )

    async def _run(self, effects: MemoryEffects, agent: Agent, message: Message, options: RunOptions) -> Turn:
        spec = agent.spec(prices=self._prices)
        here = current()
        check_start(options, spec, None if here is None else here.allowance)
        strategy = build(agent.execution, agent.custom)
        own = effects if isinstance(effects, MemoryOwnEffects) else None
        context = StrategyContext(
            agent=spec, input=message, options=options, state=effects.state, effects=effects, own=own
        )
        try:
            over = effects.state.step > 0 and (await effects.call(Hook.STOP)).stop
            turn = effects.turn() if over else await in_time(strategy.execute(context), effects.run)
            turn = with_data(turn, structure_of(agent, options))
            await effects.call(Hook.COMPLETE, turn=turn)
        except Exception as error:
            await _tell_of_limit(agent, error)
            recovered = (await effects.call(Hook.ERROR, error=error)).turn
            if recovered is None:
                raise
            recovered = _own(recovered, effects)
            await effects.call(Hook.COMPLETE, turn=recovered)
            return recovered
        return turn


def _own(turn: Turn, effects: MemoryEffects) -> Turn:
    """A turn that a hook returned as the run's: without the strategy's own messages, and with what the run has used."""
    return replace(turn, messages=spoken(turn.messages), usage=effects.state.usage, cycles=effects.state.cycles)


async def _tell_of_limit(agent: Agent, error: Exception) -> None:
    """Tell the tool strategy that the loop's limit of rounds was met, if that is the error."""
    limit = agent.execution.options.get("max_iterations")
    if agent.tool_strategy is not None and limit is not None and str(error) == str(too_many_rounds(limit)):
        await replace(agent.tool_strategy, max_iterations=limit).exhausted()
