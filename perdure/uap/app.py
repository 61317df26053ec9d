"""`App`: the agents that a worker serves, found by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.errors import InvalidInput, UnknownAgent
from perdure.uap.agent import Agent


def refuse_middleware(agent: Agent) -> None:
    """Refuse an agent whose middleware a durable run would pass over.

    Raises:
        InvalidInput: it has some.
    """
    if agent.middleware:
        raise InvalidInput(
            f"agent {agent.name!r} has middleware, which surrounds runs in process only; no worker runs it yet. Leave it "
            "out of the App, or its middleware out of the agent"
        )


class App:
    """The agents of one deployment. `perdure worker module:app` serves them."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        """Collect agents.

        Raises:
            InvalidInput: an agent without a name, two of one name, or one with middleware.
        """
        self._agents: dict[str, Agent] = {}
        for item in agents:
            if item.name is None:
                raise InvalidInput("an agent that an App serves needs a name: agent(name=..., ...)")
            if item.name in self._agents:
                raise InvalidInput(f"two agents are named {item.name!r}; names must differ")
            refuse_middleware(item)
            self._agents[item.name] = item

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._agents.values())

    def __len__(self) -> int:
        return len(self._agents)

    def serves(self, name: str) -> bool:
        """Whether there is an agent of that name."""
        return name in self._agents

    def agent(self, name: str) -> Agent:
        """The agent of that name.

        Raises:
            UnknownAgent: there is none; the message lists those there are.
        """
        found = self._agents.get(name)
        if found is None:
            raise UnknownAgent(f"no agent is named {name!r}; this app has {', '.join(self._agents) or 'none'}")
        return found
