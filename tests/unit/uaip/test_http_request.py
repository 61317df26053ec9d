"""The request of a task that is an HTTP call."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.uaip.http_call import HttpCall
from perdure.uaip.http_request import HttpRequest, make_request
from perdure.upp.json_value import JSONObject

STATE: JSONObject = {"user.email": "a@b.c", "n": 3}


def request(call: HttpCall, key: str | None = None, **arguments: Any) -> HttpRequest:
    return make_request(call, arguments, STATE, secret=lambda name: f"value of {name}", idempotency_key=key)


def test_a_get_sends_its_arguments_in_the_query() -> None:
    """Those that are not in the path; a list is repeated, null is left out."""
    made = request(HttpCall("GET", "https://a.b/{id}/x"), id=7, tags=["x", "y z"], on=True, none=None)
    assert made.url == "https://a.b/7/x?tags=x&tags=y+z&on=true"
    assert (made.method, made.body, made.headers) == ("GET", None, {})


def test_a_post_sends_its_arguments_as_json() -> None:
    made = request(HttpCall("POST", "https://a.b/{id}"), id="x", item={"n": 1})
    assert made.url == "https://a.b/x"
    assert made.body is not None
    assert json.loads(made.body) == {"item": {"n": 1}}
    assert made.headers == {"Content-Type": "application/json"}


def test_references_are_filled_in_anywhere() -> None:
    """An argument that was not given is left out."""
    call = HttpCall(
        "POST",
        "https://a.b/x",
        query={"n": {"$state": "n"}, "gone": {"$arg": "gone"}},
        headers={"Authorization": {"$secret": "token"}, "X-Kind": "k"},
        body={
            "a": [{"$arg": "a"}, {"$arg": "gone"}],
            "mail": {"to": {"$state": "user.email"}},
            "gone": {"$arg": "gone"},
        },
    )
    made = request(call, a=[1])
    assert made.url == "https://a.b/x?n=3"
    assert made.headers["Authorization"] == "value of token"
    assert made.headers["X-Kind"] == "k"
    assert made.body is not None
    assert json.loads(made.body) == {"a": [[1]], "mail": {"to": "a@b.c"}}


def test_the_idempotency_key_has_its_header() -> None:
    assert request(HttpCall("PUT", "https://a.b/x"), "k1").headers["Idempotency-Key"] == "k1"
    assert request(HttpCall("PUT", "https://a.b/x", idempotency_header="X-Once"), "k1").headers["X-Once"] == "k1"


@given(st.text(st.characters(codec="utf-8"), min_size=1))
@example("a/b?c#d")
@example("..")
def test_no_argument_leads_the_call_elsewhere(value: str) -> None:
    """It is one segment of the path, whatever it is, or is refused."""
    try:
        made = request(HttpCall("GET", "https://a.b/p/{id}/q"), id=value)
    except InvalidInput:
        assert value in (".", "..")
        return
    parts = urlsplit(made.url)
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("https", "a.b", "", "")
    assert parts.path.startswith("/p/")
    assert parts.path.endswith("/q")
    assert parts.path.count("/") == 3


@given(st.text(st.characters(codec="utf-8")))
def test_a_query_gives_its_values_back(value: str) -> None:
    made = request(HttpCall("GET", "https://a.b/x"), q=value)
    assert parse_qsl(urlsplit(made.url).query, keep_blank_values=True) == [("q", value)]


@pytest.mark.parametrize(
    ("call", "arguments", "says"),
    [
        (HttpCall("GET", "https://a.b/{id}"), {"id": ".."}, "id: '..' cannot stand in an address"),
        (HttpCall("GET", "https://a.b/{id}"), {"id": ""}, "id: '' cannot stand in an address"),
        (HttpCall("GET", "https://a.b/{id}"), {"id": [1]}, "id: the address needs a text or a number"),
        (HttpCall("GET", "https://a.b/{id}"), {}, "id: the address needs a text or a number, got None"),
        (HttpCall("GET", "https://a.b/x"), {"q": {"a": 1}}, "q: an object cannot stand in a query"),
        (HttpCall("GET", "https://a.b/x", headers={"X-A": {"$arg": "a"}}), {"a": "x\r\nY: z"}, "no header can carry"),
        (HttpCall("GET", "https://a.b/x", headers={"X-A": {"$arg": "a"}}), {"a": [1]}, "it needs a text or a number"),
        (HttpCall("POST", "https://a.b/x", body={"$state": "gone"}), {}, "needs 'gone', and the state has no key"),
    ],
)
def test_a_request_that_cannot_be_made(call: HttpCall, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        request(call, **arguments)
    assert says in str(caught.value)
