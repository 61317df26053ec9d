"""The session workflow in Temporal's sandbox: for agents whose strategy is the user's own.

It is the same code. The module of the strategy is imported anew by each execution, inside the sandbox, and whatever it
imports is restricted there: clocks, chance, files, network and threads are refused while the strategy runs. Everything
else is passed through, so an execution costs little more than one outside the sandbox.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

from temporalio import workflow

from perdure.activities import contracts
from perdure.activities.contracts import RunFrame, SessionInput
from perdure.errors import StrategyError
from perdure.uap.execution import ExecutionStrategy
from perdure.uap.spec import StrategySpec
from perdure.workflows.effects import TemporalEffects
from perdure.workflows.parking import Parking
from perdure.workflows.session import SessionWorkflow


@workflow.defn(name=contracts.SANDBOXED_SESSION)
class SandboxedSessionWorkflow(SessionWorkflow):
    """One session's open execution, with a strategy of the user's own."""

    @workflow.init
    def __init__(self, start: SessionInput) -> None:
        """See base class."""
        super().__init__(start)

    @workflow.run
    async def run(self, start: SessionInput) -> None:
        """See base class."""
        await super().run(start)

    def own_strategy(self, spec: StrategySpec) -> ExecutionStrategy | None:
        """See base class."""
        return load_strategy(spec) if spec.source else None

    async def _strategy(self, frame: RunFrame, effects: TemporalEffects, parking: Parking) -> dict[str, Any] | None:
        try:
            return await super()._strategy(frame, effects, parking)
        except workflow.NondeterminismError as error:
            raise StrategyError(
                f"strategy {frame.spec.strategy.name!r} did what may come out otherwise when it is replayed: {error} In a "
                "strategy use asyncio.sleep for waiting, and do everything else in a tool",
                code="nondeterminism",
            ) from error


def load_strategy(spec: StrategySpec) -> ExecutionStrategy:
    """The strategy that `perdure.uap.strategy_source` found, out of a module that is this execution's own.

    Raises:
        StrategyError: this worker does not have it any more, or it cannot be built.
    """
    module_name, _, attribute = spec.source.partition(":")
    try:
        with workflow.unsafe.sandbox_unrestricted():  # importing a module may do what running a strategy may not
            found: Any = getattr(_imported(module_name), attribute)
            strategy: ExecutionStrategy = found(**spec.options) if isinstance(found, type) else found
    except Exception as error:
        raise StrategyError(
            f"this worker cannot load strategy {spec.name!r} from {spec.source}: {type(error).__name__}: {error}"
        ) from error
    return strategy


def _imported(name: str) -> ModuleType:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"no module named {name!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # of the sandbox: what the module defines looks for itself there
    spec.loader.exec_module(module)
    return module
