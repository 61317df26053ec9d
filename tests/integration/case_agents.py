"""All agents that the tests of public failures speak to, in one worker."""

from __future__ import annotations

from perdure import App
from tests.integration.agents import actor, worker
from tests.integration.approval_agents import clerk
from tests.integration.sub_agents import chief

app = App(agents=[worker, actor, clerk, chief])
