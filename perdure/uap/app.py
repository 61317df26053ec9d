"""`App`: what a worker serves: agents, found by name, their sub-agents, found by path, and stage workflows, found by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from perdure.errors import InvalidInput, UnknownAgent
from perdure.uaip.bound_task import AgentTask, BoundTask
from perdure.uaip.workflows import Workflow
from perdure.uap.agent import Agent
from perdure.uap.agent_tool import AgentTool
from perdure.uap.inheritance import deepest, inherit, label_of
from perdure.uap.paid import Paid, check_gate
from perdure.uap.payments import PaymentGate
from perdure.uap.spec import AgentSpec, PaidSpec
from perdure.uap.strategy_source import check_source
from perdure.uap.voice import VoiceBackend
from perdure.upp.prices import PriceTable, find_price
from perdure.upp.secrets import Secret, check_secrets, declare


class App:
    """The agents and stage workflows of one deployment. `perdure worker module:app` serves them."""

    def __init__(
        self,
        agents: Sequence[Agent] = (),
        *,
        workflows: Sequence[Workflow] = (),
        secrets: Mapping[str, Secret] | None = None,
        paid: Mapping[str, Paid] | None = None,
        gate: PaymentGate | None = None,
        voice: VoiceBackend | None = None,
    ) -> None:
        """Collect agents, with their sub-agents, and workflows, with the agents that are their tasks.

        Args:
            agents: each with a name of its own.
            workflows: likewise. An agent that is a task of one is served by its name, as if it stood in `agents`.
            secrets: references, by the names under which tools and middleware ask for them: `context.secret(name)`. A
                worker starts only if each has a value, and redacts these values in all that it stores, streams and logs.
            paid: by agent's name: how its runs are paid for. Sub-agents are paid for by the run that called them.
            gate: what takes the money; by default balances in the database, see `perdure payments`.
            voice: what takes calls of clients that want to speak; without it they are declined.

        Raises:
            InvalidInput: an agent without a name, two of one name, or a sub-agent that a run
                could not find again: it has no name, and neither has its tool; or a strategy of one's own likewise;
                or two workflows of one name, or something that is none; or a secret that is no reference; or an agent is
                paid for that is not here, or a gate cannot be used, or what is to take calls cannot.
            UPPError: INVALID_REQUEST if the provider of a model that a sub-agent inherits would refuse its tools.
        """
        self._secrets = check_secrets(secrets or {})
        declare(self._secrets)
        self._agents: dict[str, Agent] = {}
        self._found: dict[str, Agent] = {}
        for item in agents:
            self._add(item)
        self._workflows: dict[str, Workflow] = {}
        for item in workflows:
            self._add_workflow(item)
        self.gate = gate
        if voice is not None and not isinstance(cast(object, voice), VoiceBackend):
            raise InvalidInput(f"{voice!r:.80} is no voice backend; it needs `formats`, `accept` and `end`")
        self.voice = voice
        self._paid = self._checked_paid(paid or {}, gate)

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._agents.values())

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def workflows(self) -> Sequence[Workflow]:
        """The stage workflows, in the order in which they were given."""
        return tuple(self._workflows.values())

    def task(self, workflow: str, stage: str, name: str) -> BoundTask | None:
        """A task of a stage workflow, or None: a session that is pinned to an older definition may ask for any."""
        found = self._workflows.get(workflow)
        return None if found is None else found.task(stage, name)

    @property
    def secrets(self) -> Mapping[str, Secret]:
        """The references, by name."""
        return self._secrets

    def charged(self, spec: AgentSpec) -> AgentSpec:
        """An agent's spec, with how its runs are paid for if they are."""
        paid = self._paid.get(spec.name)
        return spec if paid is None else replace(spec, paid=paid)

    def check_prices(self, prices: PriceTable) -> None:
        """See that what paid runs cost can be known.

        Raises:
            InvalidInput: a model of an agent that is paid for, or of one below it, has no price.
        """
        for path, item in self._found.items():
            model = item.model
            if path.partition("/")[0] not in self._paid or model is None:
                continue
            if find_price(prices, model.provider.name, model.model_id) is None:
                raise InvalidInput(
                    f"agent {path!r} is paid for by what it uses, but its model {model.model_id!r} of provider "
                    f"{model.provider.name!r} has no price; add it to the setting `prices`"
                )

    def _checked_paid(self, paid: Mapping[str, Paid], gate: PaymentGate | None) -> dict[str, PaidSpec]:
        if gate is not None:
            check_gate(gate)
        unknown = sorted(set(paid) - set(self._agents))
        if unknown:
            raise InvalidInput(
                f"paid names {', '.join(map(repr, unknown))}; this app has {', '.join(self._agents) or 'none'}"
            )
        return {name: item.to_spec(gate) for name, item in paid.items()}

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

    def _add(self, agent: Agent) -> None:
        if agent.name is None:
            raise InvalidInput("an agent that an App serves needs a name: agent(name=..., ...)")
        if agent.name in self._agents:
            raise InvalidInput(f"two agents are named {agent.name!r}; names must differ")
        self._agents[agent.name] = agent
        self._collect(agent, agent.name, deepest(agent, 0, None), 0)

    def _add_workflow(self, item: Workflow) -> None:
        if not isinstance(cast(object, item), Workflow):
            raise InvalidInput(f"{item!r:.80} is no workflow; put @workflow above its class")
        if item.name in self._workflows:
            raise InvalidInput(f"two workflows are named {item.name!r}; names must differ")
        self._workflows[item.name] = item
        for task in item.tasks.values():
            if isinstance(task, AgentTask) and self._agents.get(task.agent.name or "") is not task.agent:
                self._add(task.agent)

    def _collect(self, agent: Agent, path: str, limit: int, depth: int) -> None:
        self._found[path] = agent
        if agent.custom is not None:
            check_source(path, agent.custom)
        if depth == limit:
            return
        for name, tool in agent.all_tools():
            if isinstance(tool, AgentTool):
                _check_findable(tool, path)
                child = inherit(tool.agent, agent)
                self._collect(child, f"{path}/{name}", deepest(child, depth + 1, limit), depth + 1)


def _check_findable(tool: AgentTool, path: str) -> None:
    if tool.agent.name is None and tool.name == label_of(tool.agent):
        raise InvalidInput(
            f"a sub-agent of {path!r} has no name, so after a restart its runs could not find it again: give it one, "
            "agent(name=..., ...), or its tool, to_tool(name=...)"
        )
