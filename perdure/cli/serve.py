"""`perdure serve`: the HTTP API."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.api.serve import serve as serve_api
from perdure.cli.certs import certificates_of, names_of
from perdure.cli.connection import known_addresses
from perdure.cli.parameters import Tls
from perdure.cli.worker import end_with
from perdure.config import Settings, load_settings
from perdure.worker.registry import load_app

app = typer.Typer(add_completion=False)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Listen on this address, not on the configured one.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = None,
    app_target: Annotated[
        str | None,
        typer.Option(
            "--app",
            metavar="MODULE:APP",
            help="Load this app for what only it has: the gate that its agents are paid through, or what takes calls.",
        ),
    ] = None,
    tls: Tls = False,
    grpc_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Take envelopes by gRPC too, at this port; 0 takes a free one.")
    ] = None,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> int:
    """Serve the HTTP API until Ctrl-C or SIGTERM."""
    if parent is not None:
        end_with(parent)
    settings = load_settings(api_host=host, api_port=port, uamp_grpc_port=grpc_port)
    if tls:
        settings = secured(settings)
    served = None if app_target is None else load_app(app_target)
    return asyncio.run(serve_api(settings, known_addresses(settings), served))


def secured(settings: Settings) -> Settings:
    """The settings with certificates of `perdure certs` where they name none of their own.

    Raises:
        InvalidInput: those cannot be made.
    """
    if settings.api_tls_cert is not None or settings.api_tls_key is not None:
        return settings
    found = certificates_of(settings)
    pair = found.server(names_of(settings))
    return settings.model_copy(
        update={
            "api_tls_cert": pair.certificate,
            "api_tls_key": pair.key,
            "uamp_client_ca": settings.uamp_client_ca or found.authority,
            "uamp_trust": settings.uamp_trust or found.authority,
        }
    )
