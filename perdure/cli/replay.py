"""`perdure replay`: does this code go on with the sessions that other code began? For a pipeline, before a deploy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer
from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError

from perdure.cli import exits
from perdure.cli.connection import known_addresses, known_keyring
from perdure.cli.output import put, put_json, say
from perdure.cli.parameters import AsJson, Target
from perdure.config import Settings, load_settings
from perdure.errors import InvalidInput, ServerUnavailable
from perdure.runtime.temporal import connect_temporal
from perdure.uap.session_key import SessionKey, known_session_id
from perdure.upp.json_value import JSONObject
from perdure.worker.build import perdure_plugin
from perdure.worker.histories import find_files, open_histories, read_file, session_histories, write_history
from perdure.worker.registry import load_app
from perdure.worker.replay import Replayed
from perdure.worker.replay import replay as replay_histories

app = typer.Typer(add_completion=False)

_ADVICE = """
An open run whose history does not replay stops on this code, and goes on as soon as code that replays it is deployed.
To let both be true, leave a strategy that open runs have as it is, and give the changed one another name in its module.
"""


@app.command()
def replay(
    target: Target,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE|FOLDER]...", help="Recorded histories; of a folder all *.json."),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Every open session of the task queue, from Temporal.")] = False,
    session: Annotated[
        list[str] | None, typer.Option("--session", metavar="ID", help="This session, open or not; may be given often.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also save the histories that come from Temporal there.")
    ] = None,
    task_queue: Annotated[str | None, typer.Option(help="Of this task queue, not of the configured one.")] = None,
    as_json: AsJson = False,
) -> int:
    """Replay histories against this code; exit with 1 if one of them would have gone another way."""
    if not paths and not live and not session:
        raise InvalidInput("nothing is to be replayed; give files or folders, --live or --session ID")
    if record is not None and not live and not session:
        raise InvalidInput("--record saves what comes from Temporal; give --live or --session ID with it")
    settings = load_settings(task_queue=task_queue)
    source = _Source(
        settings, find_files(paths or []), [known_session_id(text) for text in session or []], live, record
    )
    return asyncio.run(_replay(target, source, as_json=as_json))


class _Source:
    """Where the histories come from."""

    def __init__(
        self, settings: Settings, files: list[Path], sessions: list[str], live: bool, record: Path | None
    ) -> None:
        self.settings = settings
        self._files = files
        self._keys = [SessionKey(settings.tenant, session) for session in sessions]
        self._live = live
        self._record = record
        self.places: dict[int, str] = {}
        """The file that each history was read from or saved to, by the history's identity."""

    async def histories(self) -> AsyncGenerator[WorkflowHistory]:
        """All of them: files first. Each is dropped before the next is read."""
        for path in self._files:
            history = read_file(path)
            self.places[id(history)] = str(path)
            yield history
        if self._keys or self._live:
            async with _temporal(self.settings) as client:
                async for history in self._from(client):
                    if self._record is not None:
                        self.places[id(history)] = str(write_history(self._record, history))
                    yield history

    async def _from(self, client: Client) -> AsyncIterator[WorkflowHistory]:
        for key in self._keys:
            async for history in session_histories(client, key):
                yield history
        if self._live:
            async for history in open_histories(client, self.settings.task_queue):
                yield history


@asynccontextmanager
async def _temporal(settings: Settings) -> AsyncGenerator[Client]:
    address = known_addresses(settings).temporal
    client = await connect_temporal(address, settings.temporal_namespace, plugins=[perdure_plugin()])
    try:
        yield client
    except RPCError as error:
        raise ServerUnavailable(f"Temporal at {address} stopped answering: {error}") from error


async def _replay(target: str, source: _Source, *, as_json: bool) -> int:
    served = load_app(target)
    done: list[JSONObject] = []
    namespace, keyring = source.settings.temporal_namespace, known_keyring(source.settings)
    async with (
        aclosing(source.histories()) as histories,
        aclosing(replay_histories(served, histories, namespace=namespace, keyring=keyring)) as found,
    ):
        async for item in found:
            document = _json(item, source.places.pop(id(item.history), None))
            done.append(document)
            if not as_json:
                _show(document)
    failed = sum(not document["ok"] for document in done)
    if as_json:
        put_json({"ok": not failed, "replayed": len(done), "failed": failed, "histories": [*done]})
    elif failed:
        say(f"{len(done)} replayed, {failed} of them not to the end\n{_ADVICE.rstrip()}", style="")
    else:
        say(f"{len(done)} replayed" if done else "no session of this task queue is open; nothing was replayed")
    return exits.FAILED if failed else exits.OK


def _json(item: Replayed, place: str | None) -> JSONObject:
    difference = item.difference
    return {
        "workflow_id": item.history.workflow_id,
        "temporal_run_id": item.history.run_id,
        "agent": item.agent,
        "events": len(item.history.events),
        "file": place,
        "ok": difference is None,
        "difference": None
        if difference is None
        else {"event": difference.event, "what": difference.what, "reason": difference.reason},
    }


def _show(document: JSONObject) -> None:
    named = document["file"] or f"{document['workflow_id']} {document['temporal_run_id']}"
    whose = f"{document['agent'] or 'a stage session'}, {document['events']} events"
    if document["ok"]:
        put(f"ok     {named}  {whose}\n")
        return
    difference = document["difference"]
    assert isinstance(difference, dict), "not ok"
    put(f"FAILS  {named}  {whose}\n       {difference['what']}\n")
