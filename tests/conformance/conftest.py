"""The vendor on this machine, for the facts that need one; and the UAIP server that the checks of UAIP are made against.

That server is ours unless `PERDURE_UAIP_URL` names another one, which must serve the workflows of `uaip_store.py`. Then
`PERDURE_UAIP_PREFIX` is what their names begin with, `PERDURE_UAIP_FORM` the form of its replies, `PERDURE_UAIP_CA` a file
of certificates to trust and `PERDURE_UAIP_EFFECTS` the file that its task `mark` writes, if it can be read here.
`PERDURE_UAIP_RESULTS` is a file for what came of each check.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path

import pytest

from tests.clients.conftest import vendor
from tests.conformance.envelope_server import EnvelopeServer, envelope_server
from tests.conformance.uaip_checks import left_out, number_of
from tests.conformance.uaip_perdure import perdure_server
from tests.conformance.uaip_replies import FORMS, Form
from tests.conformance.uaip_results import Recorder
from tests.conformance.uaip_server import UaipClient, UaipServer
from tests.conformance.uamp_client import TRANSPORTS, Line
from tests.conformance.uamp_server import UampServer, uamp_server
from tests.integration.conftest import stack
from tests.integration.stack import Stack

__all__ = ["stack", "vendor"]

URL = "PERDURE_UAIP_URL"
RESULTS = "PERDURE_UAIP_RESULTS"


def form_of_url() -> Form:
    return FORMS[os.environ.get("PERDURE_UAIP_FORM", "uaip")]


def left_out_now() -> Mapping[int, str]:
    return left_out(form_of_url()) if URL in os.environ else {}


def pytest_configure(config: pytest.Config) -> None:
    """Writes down what comes of the checks, if somebody wants to know."""
    if RESULTS in os.environ:
        config.pluginmanager.register(Recorder(Path(os.environ[RESULTS]), left_out_now()), "uaip-results")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes out the checks that say nothing of another's server; `uaip_checks` says why."""
    out = [item for item in items if number_of(item.name) in left_out_now()]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[UaipServer]:
    """The server under test."""
    if URL not in os.environ:
        with perdure_server(request.getfixturevalue("stack")) as ours:
            yield ours
        return
    authority, effects = os.environ.get("PERDURE_UAIP_CA"), os.environ.get("PERDURE_UAIP_EFFECTS")
    yield UaipServer(
        os.environ[URL],
        form_of_url(),
        prefix=os.environ.get("PERDURE_UAIP_PREFIX", ""),
        trust=ssl.create_default_context(cafile=authority),
        effects=None if effects is None else Path(effects),
    )


@pytest.fixture
async def uaip(server: UaipServer) -> AsyncGenerator[UaipClient]:
    """A client of it."""
    async with server.client() as client:
        yield client


@pytest.fixture(scope="session")
def uamp(stack: Stack) -> Iterator[UampServer]:
    """The server that the checks of UAMP are made against."""
    with uamp_server(stack) as ours:
        yield ours


@pytest.fixture(scope="package")
def envelopes(stack: Stack) -> Iterator[EnvelopeServer]:
    """The server that the checks of UAMP's envelope are made against; no test stops it, or leaves its clock ahead."""
    with envelope_server(stack) as ours:
        yield ours


@pytest.fixture(params=TRANSPORTS)
async def line(request: pytest.FixtureRequest, uamp: UampServer) -> AsyncGenerator[Line]:
    """A connection to it, by each transport."""
    async with uamp.line(request.param) as connected:
        yield connected
