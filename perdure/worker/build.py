"""A Temporal worker for an app: one plugin carries converter, failure types and interceptors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError, FailureError
from temporalio.plugin import SimplePlugin
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    Worker,
    WorkerDeploymentConfig,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from perdure.activities import contracts
from perdure.activities.around import Around
from perdure.activities.begin_run import BeginRun
from perdure.activities.border import to_application_error
from perdure.activities.call_tool import CallTool
from perdure.activities.call_user import CallUser
from perdure.activities.control_stage import ControlStage
from perdure.activities.convert import PerdurePayloadConverter, data_converter
from perdure.activities.end_run import EndRun
from perdure.activities.generate import Generate
from perdure.activities.keep_turn import KeepTurn
from perdure.activities.pay import Pay
from perdure.activities.read_history import ReadHistory
from perdure.activities.record import Record
from perdure.activities.run_task import RunTask
from perdure.activities.services import Services
from perdure.activities.stage_agents import AskAgent
from perdure.activities.take_action import TakeAction
from perdure.activities.take_steers import TakeSteers
from perdure.errors import KeyMissing, PerdureError, ServerError, ServerUnavailable, UnknownAgent, UnknownTask
from perdure.store.database import is_away
from perdure.worker.versioning import Versioning
from perdure.workflows.sandboxed import SandboxedSessionWorkflow
from perdure.workflows.session import SessionWorkflow
from perdure.workflows.stage import StageWorkflow

WORKFLOWS = (SessionWorkflow, SandboxedSessionWorkflow, StageWorkflow)


class _Border(ActivityInboundInterceptor):
    """Maps what an activity raises: a server that is away is tried again, everything else ends the call at once."""

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        try:
            return await super().execute_activity(input)
        except (ApplicationError, FailureError):
            raise
        except Exception as error:
            raise to_application_error(error, retryable=_may_succeed(error)) from error


def _may_succeed(error: Exception) -> bool:
    """Whether the same call may succeed later: the store was away, or another worker of the queue serves what it is about.

    A task that a stage session is pinned to waits so for a worker that has it, as often as it takes: to answer that it
    failed would be for good, and a deploy that lacks it may be rolled back a moment later. Nothing of it is marked before.
    """
    if isinstance(error, KeyMissing | ServerUnavailable):  # another worker has the key, or the next deploy of this one
        return True
    return is_away(error) or (isinstance(error, UnknownAgent | UnknownTask) and not activity.info().is_local)


class BorderInterceptor(Interceptor):
    """Puts the error border around every activity."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """See base class."""
        return _Border(next)


def perdure_plugin(converter: DataConverter = data_converter) -> SimplePlugin:
    """What every client and worker of Perdure has in common.

    Args:
        converter: of payloads; with keys or a database that of `perdure.runtime.converter`.
    """
    return SimplePlugin(
        "perdure",
        data_converter=converter,
        workflow_failure_exception_types=[PerdureError],
        interceptors=[BorderInterceptor()],
        workflows=list(WORKFLOWS),
        workflow_runner=SandboxedWorkflowRunner(SandboxRestrictions.default.with_passthrough_all_modules()),
    )


_UNVERSIONED = WorkerDeploymentConfig(  # said outright: by default the client hashes every loaded module
    version=WorkerDeploymentVersion("perdure", version("perdure")), use_worker_versioning=False
)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How one worker process works; see `perdure.config.Settings` for what each is."""

    task_queue: str = "perdure"
    max_concurrent_workflow_tasks: int = 20
    max_cached_workflows: int = 1000
    shutdown_grace: timedelta = timedelta(seconds=5)
    max_concurrent_activities: int | None = None
    max_task_queue_activities_per_second: float | None = None
    versioning: Versioning | None = None
    interceptors: Sequence[Interceptor] = ()


def build_worker(client: Client, services: Services, options: WorkerOptions) -> Worker:
    """A worker of the app in `services`; `client` must have been connected with `perdure_plugin()`.

    Raises:
        ServerError: this version does not serve every activity that its workflows schedule, or the client has a payload
            converter that reads nothing of what others wrote.
    """
    payloads = client.data_converter.payload_converter_class
    if payloads is not PerdurePayloadConverter:
        raise ServerError(
            f"this worker's client has the payload converter {payloads.__name__}, which cannot read what sessions hold; "
            "connect it with plugins=[perdure_plugin()]"
        )
    return Worker(
        client,
        task_queue=options.task_queue,
        deployment_config=options.versioning.config if options.versioning else _UNVERSIONED,
        interceptors=options.interceptors,
        activities=list(_activities(services).values()),
        max_concurrent_workflow_tasks=options.max_concurrent_workflow_tasks,
        max_concurrent_activities=options.max_concurrent_activities,
        max_task_queue_activities_per_second=options.max_task_queue_activities_per_second,
        max_cached_workflows=options.max_cached_workflows,
        max_workflow_task_external_storage_concurrency=1,  # more would take a task of asyncio's for every payload
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=0.5),
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        default_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=options.shutdown_grace,
    )


def _activities(services: Services) -> dict[str, Callable[..., Any]]:
    """The activities by the names under which workflows ask for them."""
    tasks, tools = RunTask(services), CallTool(services)
    served: dict[str, Callable[..., Any]] = {
        contracts.BEGIN_RUN: BeginRun(services).begin_run,
        contracts.GENERATE: Generate(services, tools).generate,
        contracts.CALL_TOOL: tools.call_tool,
        contracts.CALL_USER: CallUser(services).call_user,
        contracts.AROUND: Around(services).around,
        contracts.READ_HISTORY: ReadHistory(services).read_history,
        contracts.KEEP_TURN: KeepTurn(services).keep_turn,
        contracts.RECORD: Record(services).record,
        contracts.END_RUN: EndRun(services).end_run,
        contracts.TAKE_STEERS: TakeSteers(services).take_steers,
        contracts.TAKE_ACTION: TakeAction(services).take_action,
        contracts.RUN_TASK: tasks.run_task,
        contracts.FAIL_TASK: tasks.fail_task,
        contracts.CONTROL_STAGE: ControlStage(services).control_stage,
        contracts.ASK_AGENT: AskAgent(services).ask_agent,
        contracts.PAY: Pay(services).pay,
    }
    missing = [name for name in contracts.ACTIVITIES if name not in served]
    if missing:
        raise ServerError(f"this worker does not serve {', '.join(missing)}; install one whole version of perdure")
    return served
