"""`perdure deploy`: which build of the workers gets new sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

import typer
from temporalio.client import Client

from perdure.cli.connection import known_addresses
from perdure.cli.output import put, put_json, put_table
from perdure.cli.parameters import AsJson
from perdure.config import load_settings
from perdure.errors import InvalidInput
from perdure.runtime.deployments import Deployment, make_current, read_deployment
from perdure.runtime.deployments import ramp as give_share
from perdure.runtime.temporal import connect_temporal
from perdure.upp.json_value import JSONObject

app = typer.Typer(help="Say which build of the workers gets new sessions.", no_args_is_help=True, add_completion=False)

Build = Annotated[str, typer.Argument(metavar="BUILD", help="The build, as its workers' PERDURE_BUILD_ID has it.")]
Name = Annotated[
    str | None, typer.Option("--deployment", metavar="NAME", help="Of this deployment, not of the configured one.")
]


@app.command()
def show(deployment: Name = None, as_json: AsJson = False) -> None:
    """Show the builds of a deployment, and which of them gets new sessions."""
    _put(asyncio.run(_show(deployment)), as_json=as_json)


@app.command()
def current(build: Build, deployment: Name = None, as_json: AsJson = False) -> None:
    """Give all new sessions to a build, of which a worker runs already."""
    _put(asyncio.run(_make_current(build, deployment)), as_json=as_json)


@app.command()
def ramp(
    build: Build,
    percent: Annotated[float, typer.Argument(metavar="PERCENT", min=0, max=100, help="Its share, 0 to 100.")],
    deployment: Name = None,
    as_json: AsJson = False,
) -> None:
    """Give a share of the new sessions to a build that is not current."""
    _put(asyncio.run(_ramp(build, percent, deployment)), as_json=as_json)


@asynccontextmanager
async def _temporal(deployment: str | None) -> AsyncGenerator[tuple[Client, str]]:
    settings = load_settings(deployment_name=deployment)
    client = await connect_temporal(known_addresses(settings).temporal, settings.temporal_namespace)
    yield client, settings.deployment_name


async def _show(deployment: str | None) -> Deployment:
    async with _temporal(deployment) as (client, name):
        return await _read(client, name)


async def _make_current(build: str, deployment: str | None) -> Deployment:
    async with _temporal(deployment) as (client, name):
        await make_current(client, name, build)
        return await _read(client, name)


async def _ramp(build: str, percent: float, deployment: str | None) -> Deployment:
    async with _temporal(deployment) as (client, name):
        await give_share(client, name, build, percent)
        return await _read(client, name)


async def _read(client: Client, name: str) -> Deployment:
    found = await read_deployment(client, name)
    if found is None:
        raise InvalidInput(
            f"no versioned worker has run in deployment {name!r}: start one with PERDURE_BUILD_ID=..., "
            "or name another by --deployment"
        )
    return found


def _put(deployment: Deployment, *, as_json: bool) -> None:
    if as_json:
        shown: JSONObject = {
            "deployment": deployment.name,
            "current": deployment.current,
            "ramping": deployment.ramping,
            "ramp_percent": deployment.ramp_percent,
            "builds": [{"build": build, "drainage": drainage or None} for build, drainage in deployment.builds.items()],
        }
        put_json(shown)
        return
    put_table(("build", "gets"), [(build, _gets(deployment, build)) for build in deployment.builds])
    if deployment.current is None:
        put("\nno version is current: workers without PERDURE_BUILD_ID get new sessions, if there are any\n")


def _gets(deployment: Deployment, build: str) -> str:
    if build == deployment.current:
        return "new sessions"
    if build == deployment.ramping:
        return f"{deployment.ramp_percent:g} % of new sessions"
    return deployment.builds[build] or "nothing new"
