"""Two servers of ours, each with a database, a worker and an API of its own: agents of the first ask agents of the second."""

from __future__ import annotations

import asyncio
import json
import socket
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.runtime.connect import connect
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.database import Database
from tests.conformance.envelope_server import EnvelopeServer, envelope_server
from tests.integration.facts import check_events, check_thread, read_facts
from tests.integration.stack import Stack, WorkerProcess, eventually

APP = "tests.integration.remote_agents:app"
TOOLS = {"h2": "ask_h2", "h3": "ask_h3", "ws": "ask_ws", "grpc": "ask_grpc"}
"""What an agent of the first server asks the second by, for each binding."""


@dataclass
class TwoServers:
    """The servers, and what is done to them.

    Attributes:
        near: whose agents ask.
        far: whose agents are asked.
        credentials: the file with what the first tells the second.
    """

    near: EnvelopeServer
    far: EnvelopeServer
    credentials: Path
    forger_port: int

    def tell(self, **credentials: Any) -> None:
        """Have the first tell the second these from now on, by the names of its agents."""
        urls = (self.far.url, f"https://{self.far.grpc_target}")
        self.credentials.write_text(json.dumps({url: {"agents": credentials} for url in urls}))

    async def tell_tokens(self, *agents: str) -> None:
        """Have the first tell the second a token for each of these agents."""
        tokens = {agent: await self.far.bearer(self.near.did_of(agent)) for agent in agents}
        self.tell(**{agent: {"bearer": token} for agent, token in tokens.items()})

    def new_asker(self, **environment: str) -> WorkerProcess:
        """Another worker of the asking agents."""
        return self.near.new_worker(**environment)

    @asynccontextmanager
    async def sessions(self, *, far: bool = False) -> AsyncGenerator[Sessions]:
        """A connection to the sessions of one of them."""
        server = self.far if far else self.near
        async with connect(
            temporal_address=server.stack.addresses.temporal, database_url=server.database_url
        ) as sessions:
            yield sessions

    async def far_runs(self, text: str) -> list[str]:
        """The statuses of the runs at the second server whose message has a text, one for each run."""
        async with self.sessions(far=True) as sessions:
            database = sessions.database
            async with database.driver() as connection:
                rows = await connection.fetch(
                    "select r.status from perdure.runs r join perdure.inputs i on i.tenant_id = r.tenant_id "
                    "and i.session_id = r.session_id and i.run_id = r.id "
                    "where position(convert_to($1, 'utf8') in i.message) > 0",
                    text,
                )
        return [row["status"] for row in rows]

    async def until_far_run(self, text: str, *statuses: str) -> None:
        """Return once there is one run of that message at the second server, in one of these states if any are given."""

        async def found() -> bool:
            runs = await self.far_runs(text)
            assert len(runs) <= 1, runs
            return bool(runs) and (not statuses or runs[0] in statuses)

        await eventually(found, what=f"a run of {text} that is {statuses}")


@contextmanager
def two_servers(stack: Stack) -> Generator[TwoServers]:
    """Both, running; each believes the other's certificate, and finds its agents' keys in their DID documents."""
    with envelope_server(stack, uamp_allow_private=True) as far:
        credentials = stack.folder / f"credentials-{uuid.uuid4().hex}.json"
        credentials.write_text("{}")
        port = free_port()
        place = {
            "did": far.did,
            "url": far.url,
            "grpc": f"https://{far.grpc_target}",
            "forger": f"https://localhost:{port}",
            "forged": "did:web:ann.example",
        }
        environment = {"PERDURE_TEST_REMOTE": json.dumps(place)}
        with envelope_server(
            stack, app=APP, environment=environment, uamp_allow_private=True, uamp_credentials=credentials
        ) as near:
            both = TwoServers(near, far, credentials, port)
            asyncio.run(both.tell_tokens("asker", "chief"))
            yield both


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def new_text() -> str:
    """A text that nobody else says."""
    return uuid.uuid4().hex


def ask(tool: str, message: Any) -> dict[str, Any]:
    """A call that asks; a plan for the other's model is given as an object."""
    text = message if isinstance(message, str) else json.dumps({"plan": message})
    return {"tool": tool, "arguments": {"message": text}}


async def submit(sessions: Sessions, *calls: dict[str, Any], agent: str = "asker") -> RunHandle:
    """Have the asking agent make these calls at once, and then say "told"."""
    return await sessions.submit(agent, json.dumps({"plan": [{"calls": list(calls)}, {"say": "told"}]}))


async def open_asks(database: Database) -> list[dict[str, Any]]:
    """How the asks of a server stand that have not ended."""
    async with database.driver() as connection:
        rows = await connection.fetch(
            "select id, problem, accepted, failures, next_seq from perdure.remote_asks where ended_at is null"
        )
    return [dict(row) for row in rows]


async def check_facts(sessions: Sessions, handle: RunHandle) -> None:
    """Assert what must always hold of a session."""
    facts = await read_facts(sessions, handle.session)
    check_events(facts)
    check_thread(facts.messages)
