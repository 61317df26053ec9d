"""Agents for tests that steer them: a worker, an actor that follows a script, and a clerk whose payments a person approves."""

from __future__ import annotations

from perdure import App
from tests.integration.agents import actor, worker
from tests.integration.approval_agents import clerk

app = App(agents=[worker, actor, clerk])
