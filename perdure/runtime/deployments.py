"""Which build of the workers gets new sessions, where workers are versioned: read, and changed.

Temporal keeps it: a deployment has versions, each a build id; one is current, and another may be given a share of what is
new. A version is known from its first worker's first poll on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.enums.v1 import TaskQueueType, VersionDrainageStatus
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    DescribeWorkerDeploymentVersionRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    SetWorkerDeploymentRampingVersionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.errors import InvalidInput, ServerUnavailable
from perdure.runtime.temporal import RPC_TIMEOUT

_REFUSALS = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.INVALID_ARGUMENT)
_DRAINAGE = {
    VersionDrainageStatus.VERSION_DRAINAGE_STATUS_DRAINING: "draining",
    VersionDrainageStatus.VERSION_DRAINAGE_STATUS_DRAINED: "drained",
}


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment as Temporal routes it.

    Attributes:
        name: its name.
        current: the build that gets what is new; None while no version is current.
        ramping: a build that gets a share of it, or None.
        ramp_percent: that share, 0 to 100.
        builds: every build that is known, newest first, with its drainage: "", "draining" (open sessions are pinned to
            it) or "drained".
    """

    name: str
    current: str | None = None
    ramping: str | None = None
    ramp_percent: float = 0.0
    builds: dict[str, str] = field(default_factory=dict[str, str])

    def standing(self, build: str) -> str:
        """What a worker of a build gets, in a sentence."""
        named = f"build {build} of deployment {self.name}"
        if build == self.current:
            return f"{named} is current: it gets new sessions"
        if build == self.ramping:
            return f"{named} is ramping: it gets {self.ramp_percent:g} % of new sessions"
        current = f"build {self.current} is" if self.current is not None else "no version is"
        return (
            f"{named} is not current ({current}): this worker gets no new sessions; "
            f"`perdure deploy current {build}` makes it current"
        )


async def read_deployment(client: Client, name: str) -> Deployment | None:
    """A deployment as it is routed now; None if no versioned worker has polled under that name.

    Raises:
        ServerUnavailable: Temporal does not answer, or does not know of deployments.
    """
    request = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=name)
    try:
        answer = await client.workflow_service.describe_worker_deployment(request, timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise ServerUnavailable(f"Temporal did not say how deployment {name!r} is routed: {error}") from error
    info = answer.worker_deployment_info
    routing = info.routing_config
    return Deployment(
        name=name,
        current=routing.current_deployment_version.build_id or None,
        ramping=routing.ramping_deployment_version.build_id or None,
        ramp_percent=routing.ramping_version_percentage,
        builds={
            version.deployment_version.build_id: _DRAINAGE.get(version.drainage_status, "")
            for version in sorted(info.version_summaries, key=lambda one: one.create_time.ToNanoseconds(), reverse=True)
        },
    )


async def polled_kinds(client: Client, name: str, build: str) -> frozenset[TaskQueueType.ValueType]:
    """The kinds of tasks, workflow and activity, that workers of a build have polled for; empty if none has.

    Only with both can a build take over from another: the server does not let a task queue go unserved.

    Raises:
        ServerUnavailable: Temporal does not answer, or does not know of deployments.
    """
    version = WorkerDeploymentVersion(deployment_name=name, build_id=build)
    request = DescribeWorkerDeploymentVersionRequest(namespace=client.namespace, deployment_version=version)
    try:
        answer = await client.workflow_service.describe_worker_deployment_version(request, timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return frozenset()
        raise ServerUnavailable(f"Temporal did not say what build {build!r} of {name!r} serves: {error}") from error
    return frozenset(queue.type for queue in answer.version_task_queues)


async def make_current(client: Client, name: str, build: str) -> None:
    """Give all new sessions to a build; what is open goes on as its version's behaviour says.

    Raises:
        InvalidInput: no worker of that build has polled, or it lacks a task queue that the current one serves.
        ServerUnavailable: Temporal does not answer.
    """
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace, deployment_name=name, build_id=build, identity=client.identity
    )
    try:
        await client.workflow_service.set_worker_deployment_current_version(request, timeout=RPC_TIMEOUT)
    except RPCError as error:
        raise _refused(error, name, build) from error


async def ramp(client: Client, name: str, build: str, percent: float) -> None:
    """Give a build a share of the new sessions.

    Args:
        client: of Temporal.
        name: the deployment's.
        build: which one.
        percent: 0 to 100.

    Raises:
        InvalidInput: as `make_current`; or it is the current build.
        ServerUnavailable: Temporal does not answer.
    """
    request = SetWorkerDeploymentRampingVersionRequest(
        namespace=client.namespace, deployment_name=name, build_id=build, percentage=percent, identity=client.identity
    )
    try:
        await client.workflow_service.set_worker_deployment_ramping_version(request, timeout=RPC_TIMEOUT)
    except RPCError as error:
        raise _refused(error, name, build) from error


def _refused(error: RPCError, name: str, build: str) -> InvalidInput | ServerUnavailable:
    if error.status in _REFUSALS:
        return InvalidInput(
            f"build {build!r} of deployment {name!r} cannot get new sessions: {error}; start a worker with "
            f"PERDURE_BUILD_ID={build} first, and see `perdure deploy show`"
        )
    return ServerUnavailable(f"Temporal did not change deployment {name!r}: {error}")
