"""An approval process as a UAIP workflow: an agent asks for money, a person says yes or no, and only then it is spent.

What keeps the agent from approving its own request: `decide` is run only after a person has approved that very call
(`approval="human"`), and clients may write what is in `inputs` and nothing else, so the key that opens the last stage
comes from that task alone. `python examples/approval_stages.py` prints its stages. To serve it, from the project's folder:

    perdure dev examples.approval_stages:app

The agent, in another terminal:

    api=http://127.0.0.1:8700
    session=$(curl -s $api/initialize --json '{"workflow_name": "purchase_approval"}' | jq -r .session_id)
    act() { curl -s $api/execute -H "X-Session-Id: $session" --json "$1"; }
    act '{"workflow_name": "purchase_approval", "action": "method_call", "task": "write_request",
          "args": {"purpose": "Pens for the office", "amount_eur": 240, "supplier": "Stationer"}}'
    act '{"workflow_name": "purchase_approval", "action": "stage_transition", "stage": "review"}'
    act '{"workflow_name": "purchase_approval", "action": "method_call", "task": "decide",
          "args": {"verdict": "approve", "reason": "We need them."}}'

The last one answers at once, with status "waiting" and the action's id: it waits for a person. The person, who may be
anywhere, and in no hurry:

    perdure stages list --waiting
    perdure stages answer SESSION ACTION --approve --by Ada

or, to decide otherwise than was asked, `--arguments '{"verdict": "reject", "reason": "Not this year."}'`, or `--deny`. Then
the agent goes on:

    act '{"workflow_name": "purchase_approval", "action": "stage_transition", "stage": "purchase"}'
    act '{"workflow_name": "purchase_approval", "action": "method_call", "task": "place_order"}'
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from perdure import App
from perdure.uaip import State, TaskContext, Workflow, stage, task, workflow

LIMIT_EUR = 10_000


class NotAllowed(Exception):
    """There is no approval left to spend."""


@stage
class Draft:
    """Say what is needed."""

    @task
    def write_request(
        self,
        state: State,
        purpose: Annotated[str, Field(description="What it is for, in a sentence.")],
        amount_eur: Annotated[float, Field(description="What it costs at most.", gt=0, le=LIMIT_EUR)],
        supplier: Annotated[str, Field(description="Who gets the money.")],
    ) -> str:
        """Write the request, or write it anew; what was approved of an older one counts no more."""
        state.delete("approved")
        state.set("request", {"purpose": purpose, "amount_eur": amount_eur, "supplier": supplier})
        return f"{amount_eur:.2f} EUR for {supplier}: {purpose}"


@stage(prerequisites=["request"])
class Review:
    """A person decides. The call waits for that, for a week at most."""

    @task(approval="human", approval_timeout=timedelta(days=7))
    def decide(self, state: State, verdict: Literal["approve", "reject"], reason: str) -> str:
        """Put the decision on record; a person has to approve this call."""
        state.set("decision", {"verdict": verdict, "reason": reason})
        state.delete("approved")
        if verdict == "approve":
            state.set("approved", True)
        return verdict


@stage(prerequisites=["approved"])
class Purchase:
    """Spend what was approved."""

    @task(effect="once", timeout=60)
    def place_order(self, state: State, context: TaskContext) -> dict[str, str | float]:
        """Order it; never twice, not even after a crash."""
        if not state.delete("approved"):
            raise NotAllowed("what was approved has been ordered already")
        request = state.get("request")
        return {"order": context.idempotency_key, "supplier": request["supplier"], "amount_eur": request["amount_eur"]}


@workflow(name="purchase_approval", ttl=timedelta(days=30), inputs=["note"])
class PurchaseApproval:
    """Ask for money, have it approved, spend it."""

    draft = Draft
    review = Review
    purchase = Purchase
    transitions = {draft: [review], review: [draft, purchase]}


approval: Workflow = PurchaseApproval

app = App(workflows=[approval])

if __name__ == "__main__":
    for step in approval.definition.stages:
        print(f"{step.name}: {step.description}")
        print(f"  tasks: {', '.join(task.name for task in step.tasks) or 'none'}")
        print(f"  needs: {', '.join(step.prerequisites) or 'nothing'}")
        print(f"  leads to: {', '.join(edge.target for edge in step.transitions) or 'nothing, it is the end'}")
