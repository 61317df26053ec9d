"""The list of commands. A command's module is imported when it is run, so that `--help` need not wait for a client."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "dev": "Start all of it for this folder: servers, schema, worker and API. One terminal, one machine.",
    "run": "Hand an agent its input and stream the answer; the run goes on whatever happens here.",
    "bench": "Run an agent many times and show what a step takes: time, history, rows, tokens.",
    "sessions": "List, show, follow, control, branch, export and import sessions.",
    "runs": "Show a run.",
    "waits": "List and answer what parked runs wait for.",
    "stages": "List stage workflows; list, show, control and answer their sessions.",
    "limits": "Show the limits that all workers share: what is left of each, who holds permits of it, and who waits for one.",
    "keys": "Create, list and revoke the API keys of a tenant.",
    "encryption": "Make keys that seal what is stored, see which are needed, and seal again under a new one.",
    "payments": "Open and fill prepaid balances, issue tokens that pay from them, see what moved them, and pay for a run.",
    "signing": "List, follow up and forget the keys that sign responses.",
    "worker": "Serve an app's agents until Ctrl-C or SIGTERM.",
    "serve": "Serve the HTTP API until Ctrl-C or SIGTERM.",
    "uamp": "Ask agents of other servers by signed envelopes; list and answer what they propose, and tend keys.",
    "certs": "Make certificates for development: an authority, the server's, and clients' by their DIDs.",
    "mcp": "Serve a workflow to the MCP client at stdin and stdout; the tools are those of the session's stage.",
    "migrate": "Bring the database to this version's schema; harmless if it is there already.",
    "deploy": "Say which build of the workers gets new sessions.",
    "replay": "Replay histories against this code; exit with 1 if one of them would have gone another way.",
    "doctor": "Check servers, schema, runs and rows, and mend them; exit with 1 if something is wrong.",
}
"""Module of `perdure.cli` to its one-line help."""


class Commands(TyperGroup):
    """The commands above, and what is registered besides."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        listed: dict[str, Any] = {name: TyperCommand(name, help=line) for name, line in COMMANDS.items()}
        self.commands = {**listed, **self.commands}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that is run. What is only listed in the help stays a name with a line of help."""
        if args[0] in COMMANDS:
            self.commands[args[0]] = load(args[0])
        return super().resolve_command(ctx, args)


def load(name: str) -> Any:
    """The command itself, with its parameters."""
    app: typer.Typer = import_module(f"perdure.cli.{name}").app
    return typer.main.get_command(app)
