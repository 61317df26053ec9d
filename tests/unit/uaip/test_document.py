"""A workflow from a JSON document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import agent
from perdure.errors import InvalidInput
from perdure.uaip import State, Workflow, workflow_from_json
from perdure.uaip.bound_task import AgentTask, FunctionTask, HttpTask
from perdure.uaip.definition import WorkflowDefinition
from perdure.upp.json_value import JSONObject
from perdure.upp.providers.scripted import scripted

CODER = agent(name="coder", model=scripted(["done"]))


def pay(card: str, state: State) -> str:
    """Pay with a card."""
    return card


def document(**changes: Any) -> dict[str, Any]:
    """A right document; `changes` go to its members by path, as `stages__cart__tasks`."""
    made: dict[str, Any] = {
        "name": "store",
        "description": "Buy things.",
        "initial_stage": "browse",
        "ttl_s": 60,
        "inputs": ["cart.items", "user.email"],
        "stages": {
            "browse": {
                "name": "browse",
                "description": "Look around.",
                "tasks": {
                    "search": {
                        "description": "Search the shop.",
                        "parameters": {
                            "type": "object",
                            "properties": {"query": {"type": "string"}},
                            "required": ["query"],
                        },
                        "returns": {"type": "array"},
                        "http": {"url": "https://shop.example/products", "query": {"q": {"$arg": "query"}}},
                        "timeout_s": 5,
                        "retry": {"attempts": 3},
                        "save_as": "found",
                    },
                    "review": {"agent": "coder", "approval": "human"},
                },
            },
            "checkout": {
                "prerequisites": ["cart.items"],
                "tasks": {"pay": {"function": "pay", "effect": "idempotent"}},
            },
        },
        "transitions": {"browse": ["checkout"], "checkout": [{"to": "browse", "keep": ["cart.items"]}]},
    }
    for path, value in changes.items():
        *steps, last = path.split("__")
        at = made
        for step in steps:
            at = at[step]
        at[last] = value
    return made


def load(value: Any) -> Workflow:
    return workflow_from_json(value, functions={"pay": pay}, agents=[CODER])


def refusal(value: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        load(value)
    return str(caught.value)


def test_a_document_is_a_workflow_like_any() -> None:
    made = load(document())
    definition = made.definition
    assert (definition.name, definition.initial_stage, definition.ttl_s) == ("store", "browse", 60)
    assert definition.stage_names == ("browse", "checkout")
    browse, checkout = definition.stages
    assert [(edge.target, edge.keep) for edge in checkout.transitions] == [("browse", ("cart.items",))]
    assert [task.kind for task in (*browse.tasks, *checkout.tasks)] == ["http", "agent", "function"]
    assert WorkflowDefinition.from_json(definition.to_json()) == definition


def test_its_text_gives_the_same() -> None:
    text = json.dumps(document())
    assert load(text).definition == load(text.encode()).definition == load(document()).definition


def test_each_task_has_what_carries_it_out() -> None:
    made = load(document())
    search, review, paying = made.task("browse", "search"), made.task("browse", "review"), made.task("checkout", "pay")
    assert isinstance(search, HttpTask)
    assert (search.call.method, search.spec.effect, search.spec.save_as) == ("GET", "none", "found")
    assert search.spec.http == search.call
    assert isinstance(review, AgentTask)
    assert (review.agent, review.spec.approval) == (CODER, "human")
    assert isinstance(paying, FunctionTask)
    assert paying.callable() is pay


def test_a_function_says_its_schemas_itself() -> None:
    spec = load(document()).definition.stages[1].tasks[0]
    assert spec.description == "Pay with a card."
    assert spec.parameters["properties"] == {"card": {"type": "string"}}
    assert spec.returns == {"type": "string"}


def test_a_schema_takes_no_members_that_it_does_not_name() -> None:
    """Unless it says something of them."""
    search = load(document()).definition.stages[0].tasks[0]
    assert search.parameters["additionalProperties"] is False
    opened: JSONObject = {"type": "object", "properties": {"query": {}}, "additionalProperties": {"type": "string"}}
    made = load(document(stages__browse__tasks__search__parameters=opened))
    assert made.definition.stages[0].tasks[0].parameters == opened


def test_what_changes_something_is_not_taken_for_harmless() -> None:
    made = load(document(stages__browse__tasks__search__http__method="POST", stages__browse__tasks__search__retry=None))
    assert made.definition.stages[0].tasks[0].effect == "at_most_once"


SEARCH = "stages__browse__tasks__search"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({"name": None}, "$.name: Input should be a valid string"),
    "another version": ({"uaip": "2"}, "$.uaip: Input should be '0.1'"),
    "unknown member": (
        {f"{SEARCH}__saveas": "x"},
        "$.stages.browse.tasks.search.saveas: there is no member of that name",
    ),
    "wrong type": (
        {f"{SEARCH}__timeout_s": "5"},
        "$.stages.browse.tasks.search.timeout_s: Input should be a valid number",
    ),
    "unknown target": ({"transitions__browse": ["chekout"]}, "from 'browse' to 'chekout' leads to no stage; there are"),
    "unknown source": (
        {"transitions__bowse": []},
        "$.transitions.bowse: no stage is named so; there are browse, checkout",
    ),
    "no edge": ({"transitions__browse": [7]}, "$.transitions.browse[0]: it must be an object"),
    "bad keep": ({"transitions__browse": [{"to": "checkout", "keep": "some"}]}, "$.transitions.browse[0].keep"),
    "unreachable": ({"transitions": {}}, "no way leads from 'browse' to 'checkout'"),
    "no stage": ({"stages": {}, "transitions": {}}, "$.stages: a workflow needs at least one stage"),
    "unknown start": ({"initial_stage": "shop"}, "initial_stage 'shop' is no stage"),
    "another inner name": ({"stages__browse__name": "shop"}, "$.stages.browse.name: 'shop' is not the name that"),
    "reserved": (
        {"stages__browse__tasks": {"provide_state": {"function": "pay"}}},
        "no task can be named 'provide_state'",
    ),
    "nothing to do": ({f"{SEARCH}__http": None}, "$.stages.browse.tasks.search: exactly one of function, http, agent"),
    "two to do": ({f"{SEARCH}__function": "pay"}, "exactly one of function, http, agent"),
    "unknown function": (
        {"stages__checkout__tasks__pay__function": "pai"},
        "no function is registered as 'pai'; there are pay",
    ),
    "unknown agent": ({"stages__browse__tasks__review__agent": "x"}, "no agent is named 'x'; there are coder"),
    "agent's effect": ({"stages__browse__tasks__review__effect": "once"}, "leave effect and retry out"),
    "function's schema": (
        {"stages__checkout__tasks__pay__parameters": {}},
        ".pay.parameters: a function says this itself",
    ),
    "no schema": ({f"{SEARCH}__parameters__properties__query": {"type": "strin"}}, "parameters: no JSON Schema"),
    "no own schema": (
        {f"{SEARCH}__parameters__properties__query": {"$ref": "https://a.b/c"}},
        "at $.properties.query: $ref 'https://a.b/c' leads out of the schema",
    ),
    "no object": ({f"{SEARCH}__parameters": {"type": "string"}}, "parameters must be a JSON Schema of type 'object'"),
    "retry": ({f"{SEARCH}__retry__attempts": 0}, "attempts is 0"),
    "reserved key": ({f"{SEARCH}__save_as": "events"}, "save_as: key 'events' is reserved"),
    "address": ({f"{SEARCH}__http__url": "file:///etc/passwd"}, "must be http(s)://server/path"),
    "server": ({f"{SEARCH}__http__url": "https://{query}/x"}, "must be http(s)://server/path"),
    "user": ({f"{SEARCH}__http__url": "https://a@b/x"}, "must be http(s)://server/path"),
    "placeholder": (
        {f"{SEARCH}__http__url": "https://a.b/{id}"},
        "url: no parameter is named 'id'; the task has query",
    ),
    "brace": ({f"{SEARCH}__http__url": "https://a.b/{query"}, "has a brace without its other half"),
    "argument": ({f"{SEARCH}__http__query__q": {"$arg": "x"}}, "query: no parameter is named 'x'"),
    "reference": (
        {f"{SEARCH}__http__query__q": {"$env": "x"}},
        "query: '$env' is no reference; there are $arg, $state",
    ),
    "secret": ({f"{SEARCH}__http__query__q": {"$secret": "x"}}, "query: secrets can stand in headers only"),
    "header": ({f"{SEARCH}__http__headers": {"Host": "x"}}, "'Host' is no header that a call may set"),
    "ttl": ({"ttl_s": -1}, "ttl must be above zero"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_document_that_is_refused(name: str) -> None:
    changes, says = REFUSED[name]
    assert says in refusal(document(**changes))


def test_every_misfit_of_the_form_is_listed() -> None:
    said = refusal(document(name=7, ttl_s="x"))
    assert "$.name: " in said
    assert "$.ttl_s: " in said


def test_a_name_that_comes_twice_in_the_text() -> None:
    """A parser would keep the last without a word."""
    text = json.dumps(document()).replace('"checkout": {"prereq', '"browse": {"prereq')
    assert "workflow document: $.stages.browse comes twice; names must differ" in refusal(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "nul", '{"ttl_s": NaN}', b"\xff", '"store"'])
def test_a_text_that_is_no_document(text: str | bytes) -> None:
    assert refusal(text).startswith(("the workflow document is not JSON", "workflow document: $"))
