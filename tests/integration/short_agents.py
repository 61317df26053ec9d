"""The spec agent of `agents` with everything short: its model and its tools run where the run is worked on.

Of `apart` no tool is called with its answer: one that must have the step to itself never is.
"""

from __future__ import annotations

import dataclasses

from perdure import App, agent
from perdure.execution import loop
from perdure.upp.providers.scripted import scripted
from tests.integration.agents import TOOLS, answer_spec

SHORT = [dataclasses.replace(one, short=True) for one in TOOLS]

worker = agent(name="worker", model=scripted(answer_spec, short=True), tools=SHORT, execution=loop(max_iterations=5000))
halfway = agent(name="halfway", model=scripted(answer_spec), tools=SHORT, execution=loop(max_iterations=5000))
alone = [dataclasses.replace(one, sequential=True) for one in SHORT]
apart = agent(name="apart", model=scripted(answer_spec), tools=alone, execution=loop(max_iterations=5000))
app = App(agents=[worker, halfway, apart])
