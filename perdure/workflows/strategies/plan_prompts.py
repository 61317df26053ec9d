"""What `plan` says to the model."""

from __future__ import annotations

from perdure.uap.plan_steps import PlanStep

FORM = (
    'Answer with the plan as JSON alone: {"steps": [{"id": "step-1", "description": "what the step does", '
    '"tool": "the name of the tool that it uses, or null", "dependsOn": ["ids of steps to be completed before it"]}]}.'
)


def planning_prompt(max_steps: int) -> str:
    """Asks for the first plan."""
    return (
        f"Make a plan for this task, of at most {max_steps} steps. Do not carry it out yet. If the task needs no plan, "
        f"give an empty list of steps. {FORM}"
    )


def replanning_prompt(failed: PlanStep, room: int) -> str:
    """Asks for another plan after a step failed."""
    return (
        f"Step {failed.id} of the plan failed: {failed.description} Make a new plan for the remaining work, of at most "
        f"{room} steps. What is completed stays; steps of the old plan that have not run are given up. If nothing can "
        f"or need be done any more, give an empty list of steps. {FORM}"
    )


def correction_prompt(problem: str) -> str:
    """Asks once more after an answer that is no plan."""
    return f"This plan cannot be carried out: {problem}. Make it again. {FORM}"


def step_prompt(step: PlanStep) -> str:
    """Asks for one step to be carried out."""
    tool = f" Use the tool {step.tool}." if step.tool else ""
    return f"Carry out step {step.id} of the plan, and only this: {step.description}{tool}"


def go_on_prompt(step: PlanStep) -> str:
    """Asks on within a step, after tools were run."""
    return (
        f"Go on with step {step.id} of the plan: {step.description} If it is done, say what came of it, without "
        "calling a tool."
    )
