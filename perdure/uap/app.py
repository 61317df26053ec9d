"""`App`: the agents that a worker serves, found by name, and their sub-agents, found by path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from perdure.errors import InvalidInput, UnknownAgent
from perdure.uap.agent import Agent
from perdure.uap.agent_tool import AgentTool
from perdure.uap.inheritance import deepest, inherit, label_of
from perdure.uap.strategy_source import check_source
from perdure.upp.secrets import Secret, check_secrets, declare


class App:
    """The agents of one deployment. `perdure worker module:app` serves them."""

    def __init__(self, agents: Sequence[Agent], *, secrets: Mapping[str, Secret] | None = None) -> None:
        """Collect agents, with their sub-agents.

        Args:
            agents: each with a name of its own.
            secrets: references, by the names under which tools and middleware ask for them: `context.secret(name)`. A
                worker starts only if each has a value, and redacts these values in all that it stores, streams and logs.

        Raises:
            InvalidInput: an agent without a name, two of one name, or a sub-agent that a run
                could not find again: it has no name, and neither has its tool; or a strategy of one's own likewise;
                or a secret that is no reference.
            UPPError: INVALID_REQUEST if the provider of a model that a sub-agent inherits would refuse its tools.
        """
        self._secrets = check_secrets(secrets or {})
        declare(self._secrets)
        self._agents: dict[str, Agent] = {}
        self._found: dict[str, Agent] = {}
        for item in agents:
            if item.name is None:
                raise InvalidInput("an agent that an App serves needs a name: agent(name=..., ...)")
            if item.name in self._agents:
                raise InvalidInput(f"two agents are named {item.name!r}; names must differ")
            self._agents[item.name] = item
            self._collect(item, item.name, deepest(item, 0, None), 0)

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._agents.values())

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def secrets(self) -> Mapping[str, Secret]:
        """The references, by name."""
        return self._secrets

    def register_secrets(self) -> None:
        """See that each secret has a value, and redact these values in this process from now on.

        Raises:
            InvalidInput: one has none, or one that is too plain to be looked for.
        """
        for name, item in self._secrets.items():
            item.register(name)

    def serves(self, path: str) -> bool:
        """Whether there is an agent of that name, or a sub-agent of that path."""
        return path in self._found

    def agent(self, path: str) -> Agent:
        """The agent of that name, or the sub-agent of that path, with all that it inherits.

        Args:
            path: an agent's name; for a sub-agent `/` and a tool's name follow, as often as needed.

        Raises:
            UnknownAgent: there is none; the message lists the agents that there are.
        """
        found = self._found.get(path)
        if found is None:
            raise UnknownAgent(f"no agent is named {path!r}; this app has {', '.join(self._agents) or 'none'}")
        return found

    def _collect(self, agent: Agent, path: str, limit: int, depth: int) -> None:
        self._found[path] = agent
        if agent.custom is not None:
            check_source(path, agent.custom)
        if depth == limit:
            return
        for tool in agent.resolved:
            if isinstance(tool, AgentTool):
                _check_findable(tool, path)
                child = inherit(tool.agent, agent)
                self._collect(child, f"{path}/{tool.name}", deepest(child, depth + 1, limit), depth + 1)


def _check_findable(tool: AgentTool, path: str) -> None:
    if tool.agent.name is None and tool.name == label_of(tool.agent):
        raise InvalidInput(
            f"a sub-agent of {path!r} has no name, so after a restart its runs could not find it again: give it one, "
            "agent(name=..., ...), or its tool, to_tool(name=...)"
        )
