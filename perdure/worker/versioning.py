"""Worker versions: which build a worker is, and what that means for the sessions it gets."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

from perdure.config import Settings
from perdure.errors import ServerUnavailable
from perdure.runtime.deployments import polled_kinds, read_deployment

_KNOWN_WITHIN_S = 15.0
_LOOK_EACH_S = 0.2
_KINDS = 2  # workflow and activity


@dataclass(frozen=True, slots=True)
class Versioning:
    """Which version of a deployment a worker is.

    An execution of a session is short: an idle session has none, and the next input begins one on the version that is
    current by then. So the behaviour concerns runs that are open while a deploy happens, above all parked ones.

    Attributes:
        deployment: its name.
        build: the version.
        pinned: an open execution stays on the version that it began on, which must have workers until it ends: for a run
            that waits for a person that may be weeks. Else, and by default, it goes on with the version that is current at
            its next task. Prompts, tools, hooks and models may differ there, only the calls of a strategy of the user's own
            may not; `perdure replay` tells before the deploy.
    """

    deployment: str
    build: str
    pinned: bool = False

    @property
    def config(self) -> WorkerDeploymentConfig:
        """The same for the SDK."""
        behavior = VersioningBehavior.PINNED if self.pinned else VersioningBehavior.AUTO_UPGRADE
        return WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(self.deployment, self.build),
            use_worker_versioning=True,
            default_versioning_behavior=behavior,
        )


def versioning_of(settings: Settings) -> Versioning | None:
    """The version that a process was told to be; None if its workers have none."""
    if settings.build_id is None:
        return None
    return Versioning(settings.deployment_name, settings.build_id, pinned=settings.worker_versioning == "pinned")


async def standing(client: Client, versioning: Versioning) -> str:
    """Whether a worker that has begun to poll gets new sessions, in a sentence, and what to do if not."""
    end, known = time.monotonic() + _KNOWN_WITHIN_S, "it has not seen this worker poll yet"
    while time.monotonic() < end:  # the server knows a version from its first poll on
        try:
            kinds = await polled_kinds(client, versioning.deployment, versioning.build)
            deployment = await read_deployment(client, versioning.deployment) if len(kinds) == _KINDS else None
        except ServerUnavailable as error:  # the worker serves all the same: only what it gets is not known
            known = str(error)
        else:
            if deployment is not None and versioning.build in deployment.builds:
                return deployment.standing(versioning.build)
        await asyncio.sleep(_LOOK_EACH_S)
    return (
        f"Temporal does not say whether build {versioning.build} of deployment {versioning.deployment} gets new sessions "
        f"({known}); `perdure deploy show` tells"
    )
