"""What the owner's worker of `access_stage` serves: the agents of the tests, and stage workflows."""

from __future__ import annotations

from perdure import App
from tests.integration import agents, door_stages

app = App(agents=list(agents.app), workflows=door_stages.app.workflows)
