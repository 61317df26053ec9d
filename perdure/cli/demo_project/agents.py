"""The demo's app. A worker of it gets its folders through the environment, for it shares no memory with the demo."""

from __future__ import annotations

import os
from pathlib import Path

from perdure import App, agent
from perdure.cli.demo_project.folder import SAMPLE
from perdure.cli.demo_project.ledger import Ledger
from perdure.cli.demo_project.model import auditor_model
from perdure.cli.demo_project.tools import make_tools
from perdure.execution import loop
from perdure.uap.agent import Agent

AUDITOR = "auditor"
FOLDER_VARIABLE = "PERDURE_DEMO_FOLDER"
WORK_VARIABLE = "PERDURE_DEMO_WORK"
_MOST_ROUNDS = 60  # one listing, ten single reads, thirty of eight files each, one report; and room


def make_auditor(folder: Path, work: Path) -> Agent:
    """The agent that audits `folder` and leaves its report and ledger in `work`."""
    return agent(
        name=AUDITOR,
        description="Audits the TODO comments of a folder.",
        model=auditor_model(Ledger(work)),
        system="You audit the TODO and FIXME comments of a folder and write one report.",
        tools=make_tools(folder, work),
        execution=loop(max_iterations=_MOST_ROUNDS),
    )


app = App(
    agents=[
        make_auditor(Path(os.environ.get(FOLDER_VARIABLE, SAMPLE)), Path(os.environ.get(WORK_VARIABLE, Path.cwd())))
    ]
)
