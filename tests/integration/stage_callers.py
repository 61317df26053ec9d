"""A workflow from a document, whose tasks call the server that the environment names."""

from __future__ import annotations

import os

from perdure import App
from perdure.uaip import Workflow, workflow_from_json
from perdure.upp.json_value import JSONObject

CALLER = "caller"
SERVER = "PERDURE_TEST_SERVER"


def document(server: str) -> JSONObject:
    """What the worker loads."""
    number: JSONObject = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
    post: JSONObject = {"method": "POST", "url": f"{server}/orders"}
    return {
        "name": CALLER,
        "stages": {
            "desk": {
                "tasks": {
                    "order": {"parameters": number, "http": post, "effect": "idempotent", "save_as": "order"},
                    "charge": {"parameters": number, "http": post},
                    "ask": {
                        "http": {"url": f"{server}/asked"},
                        "retry": {"attempts": 3, "wait_s": 0.01},
                        "save_as": "answer",
                    },
                }
            }
        },
    }


caller: Workflow = workflow_from_json(document(os.environ.get(SERVER, "http://127.0.0.1:9")))
app = App(workflows=[caller])
