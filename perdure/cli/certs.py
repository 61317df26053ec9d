"""`perdure certs`: certificates for development, in `.perdure/certs`. `perdure serve --tls` uses them."""

from __future__ import annotations

from typing import Annotated

import typer

from perdure.cli.output import put_fields, put_json, say
from perdure.cli.parameters import AsJson
from perdure.config import Settings, load_settings
from perdure.embedded.certificates import Certificates, Pair

FOLDER = "certs"

app = typer.Typer(
    help="Make certificates for development: an authority, the server's, and clients' by their DIDs.",
    add_completion=False,
)

Renew = Annotated[bool, typer.Option("--renew", help="Make another even if the one there is still good.")]


@app.callback(invoke_without_command=True)
def make(
    context: typer.Context,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host", metavar="NAME", help="A name or address of the server besides this machine's; several if need be."
        ),
    ] = None,
    renew: Renew = False,
    as_json: AsJson = False,
) -> None:
    """Make the authority and the server's certificate, or show where they are."""
    if context.invoked_subcommand is not None:
        return
    settings = load_settings()
    found = certificates_of(settings)
    _show(found, found.server([*names_of(settings), *(host or ())], is_new=renew), as_json=as_json)
    if not as_json:
        say("clients trust the authority's certificate; the server uses its own with `perdure serve --tls`")


@app.command()
def client(
    did: Annotated[str, typer.Argument(metavar="DID", help="The agent's name, such as did:web:agents.example.")],
    renew: Renew = False,
    as_json: AsJson = False,
) -> None:
    """Make the client certificate of an agent, by which it shows who it is at a server that trusts the authority."""
    found = certificates_of(load_settings())
    _show(found, found.client(did, is_new=renew), as_json=as_json)


def certificates_of(settings: Settings) -> Certificates:
    """Those of the project's folder."""
    return Certificates(settings.data_folder / FOLDER)


def names_of(settings: Settings) -> list[str]:
    """Under which others reach the server, if the settings say it."""
    return [] if settings.uamp_host is None else [settings.uamp_host.partition(":")[0]]


def _show(found: Certificates, pair: Pair, *, as_json: bool) -> None:
    shown = {"authority": str(found.authority), "certificate": str(pair.certificate), "key": str(pair.key)}
    if as_json:
        put_json({**shown})
    else:
        put_fields(shown.items())
