"""References to secrets: where they are resolved, and what is shown of them."""

from __future__ import annotations

import copy
import json
import pickle
import uuid
from pathlib import Path

import httpx
import pytest

from perdure import App, agent, secret
from perdure.errors import InvalidInput
from perdure.execution import loop
from perdure.uap.middleware import MiddlewareContext
from perdure.upp import ErrorCode, LLMRequest, ProviderConfig, ToolContext, UPPError, UserMessage, tool
from perdure.upp.keys import KeyStrategy, resolve_key
from perdure.upp.providers import openai
from perdure.upp.providers.script import call
from perdure.upp.providers.scripted import scripted
from perdure.upp.redaction import known_secrets
from perdure.upp.secrets import Secret

VARIABLE = "PERDURE_TESTS_SECRET"


@pytest.fixture
def value(monkeypatch: pytest.MonkeyPatch) -> str:
    """The value of VARIABLE."""
    drawn = f"sk-{uuid.uuid4().hex}"
    monkeypatch.setenv(VARIABLE, drawn)
    return drawn


def test_a_reference_is_resolved_where_it_is_used(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time, so that a secret that is changed counts at the next call; from then on it is redacted."""
    path = tmp_path / "stripe"
    path.write_text(f"{value}-file\n")
    assert secret(f"env:{VARIABLE}").get_key() == value
    assert secret(f"file:{path}").get_key() == f"{value}-file"
    assert known_secrets.text(f"{value} {value}-file") == f"[redacted:{VARIABLE}] [redacted:stripe]"
    monkeypatch.setenv(VARIABLE, f"{value}-2")
    assert secret(f"env:{VARIABLE}").get_key() == f"{value}-2"


def test_nothing_shows_the_value(value: str) -> None:
    """Neither what is printed nor what is pickled or copied."""
    given = secret(f"env:{VARIABLE}")
    given.get_key()
    assert repr(given) == str(given) == f"secret('env:{VARIABLE}')"
    assert value.encode() not in pickle.dumps(given)
    assert pickle.loads(pickle.dumps(given)) == copy.deepcopy(given) == given  # noqa: S301 - our own bytes
    assert value not in repr(ProviderConfig(api_key=given, headers={"x": given}))
    assert value not in repr(ToolContext("c", "k", 1, secrets={"stripe": given}))
    with pytest.raises(TypeError):
        json.dumps(given)


@pytest.mark.parametrize(
    "reference", ["sk-live-0123456789", "env:1A", "env:A B", "file:relative", "vault:x", "ENV:X", ""]
)
def test_what_is_no_reference_is_refused_and_not_shown(reference: str) -> None:
    """It may be the secret itself."""
    with pytest.raises(InvalidInput, match="env:VARIABLE or file:/ABSOLUTE/PATH") as caught:
        secret(reference)
    assert not reference or reference not in str(caught.value)


@pytest.mark.parametrize("reference", ["env:PERDURE_TESTS_NO_SUCH", "file:/nowhere/secret"])
def test_a_secret_that_is_not_there_is_named(reference: str) -> None:
    with pytest.raises(InvalidInput, match=f"the secret {reference} is not there; "):
        secret(reference).get_key()


async def test_a_reference_is_a_providers_key(value: str) -> None:
    """One kind of thing: it is a key strategy."""
    given = secret(f"env:{VARIABLE}")
    assert isinstance(given, KeyStrategy)
    assert await resolve_key(given, [], "acme") == value
    with pytest.raises(UPPError, match="no API key: the secret env:PERDURE_TESTS_NO_SUCH is not there; set") as caught:
        await resolve_key(secret("env:PERDURE_TESTS_NO_SUCH"), [], "acme")
    assert caught.value.code is ErrorCode.AUTHENTICATION_FAILED


async def test_keys_and_headers_that_were_used_are_redacted() -> None:
    """Also those that nobody gave by reference."""
    key, header, plain = (f"{uuid.uuid4().hex}x" for _ in range(3))
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(401, json={"error": {"message": "no"}})

    config = ProviderConfig(
        api_key=key,
        headers={"X-Auth-Token": f"Token {header}", "x-region": plain},
        transport=httpx.MockTransport(answer),
    )
    request = LLMRequest([UserMessage("hi")], config=config)
    with pytest.raises(UPPError):
        await openai("gpt-4.1", api="completions").bind().complete(request)
    assert sent[0].headers["x-auth-token"] == f"Token {header}"
    assert (
        known_secrets.text(f"{key} {header} {plain}") == f"[redacted:openai-key] [redacted:openai-x-auth-token] {plain}"
    )


async def test_a_header_whose_secret_is_not_there_is_named() -> None:
    config = ProviderConfig(api_key="k", headers={"x-account": secret("env:PERDURE_TESTS_NO_SUCH")})
    request = LLMRequest([UserMessage("hi")], config=config)
    with pytest.raises(UPPError, match="a header cannot be sent: the secret env:PERDURE_TESTS_NO_SUCH is not there"):
        await openai("gpt-4.1", api="completions").bind().complete(request)


async def test_a_tool_and_middleware_ask_for_secrets_by_name(value: str) -> None:
    """In process too, where nothing is stored and so nothing is redacted of what comes back."""

    @tool(effect="none")
    def pay(context: ToolContext) -> str:
        """Pay."""
        return context.secret("stripe")

    name = f"payer-{uuid.uuid4().hex}"
    payer = agent(name=name, model=scripted([call("pay"), "paid"]), tools=[pay], execution=loop())
    App(agents=[payer], secrets={"stripe": secret(f"env:{VARIABLE}")})
    turn = await payer.run("go")
    assert turn.tool_executions[0].result == value
    assert MiddlewareContext(agent=payer, input=UserMessage("x")).secret("stripe") == value
    with pytest.raises(InvalidInput, match=r"no secret is named 'strip'; there are .*stripe"):
        MiddlewareContext(agent=payer, input=UserMessage("x")).secret("strip")


@pytest.mark.parametrize(
    ("name", "given"), [("a b", Secret("env:X")), ("", Secret("env:X")), ("stripe", "sk-live-012345")]
)
def test_an_app_takes_references_only(name: str, given: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        App(agents=[], secrets={name: given})  # pyright: ignore[reportArgumentType]
    assert "sk-live" not in str(caught.value)


def test_an_app_registers_its_secrets_by_their_names(value: str) -> None:
    App(agents=[], secrets={"stripe": secret(f"env:{VARIABLE}")}).register_secrets()
    assert known_secrets.text(value) == "[redacted:stripe]"


def test_an_app_whose_secret_is_not_there_says_which() -> None:
    app = App(agents=[], secrets={"stripe": secret("env:PERDURE_TESTS_NO_SUCH")})
    with pytest.raises(InvalidInput, match="PERDURE_TESTS_NO_SUCH"):
        app.register_secrets()
