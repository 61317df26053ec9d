"""`perdure uamp`: ask agents of other servers by signed envelopes, and tend what this server has for them."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli import uamp_identity, uamp_keys, uamp_proposals
from perdure.cli.output import put_fields, put_json, put_table, put_text, say
from perdure.cli.parameters import AsJson, checked_text
from perdure.cli.uamp_remote import (
    Bearer,
    BindingName,
    Certificate,
    CertificateKey,
    IdentityFile,
    Remote,
    Seconds,
    TrustFile,
    Url,
    Via,
)
from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONValue

if TYPE_CHECKING:  # as in `uamp_remote`
    from perdure.uamp_envelope_client import Answer, Decision, HubView, Manifest, Sent

app = typer.Typer(
    help="Ask agents of other servers by signed envelopes; list and answer what they propose, and tend keys.",
    no_args_is_help=True,
    add_completion=False,
)

To = Annotated[str | None, typer.Option(metavar="DID", help="The agent that is meant; by default told from URL.")]
Window = Annotated[
    int | None, typer.Option(min=1, max=1024, help="How many frames may come before the first is acknowledged.")
]
MediaType = Annotated[str, typer.Option("--type", help="The content's media type.")]


@app.command()
def ask(
    url: Url,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="What is asked; - reads it from stdin.")],
    to: To = None,
    identity: IdentityFile = None,
    bearer: Bearer = None,
    certificate: Certificate = None,
    key: CertificateKey = None,
    trust: TrustFile = None,
    binding: Via = BindingName.H2,
    window: Window = None,
    out: Annotated[Path | None, typer.Option(help="Write the image or other bytes of an answer to this file.")] = None,
    patience: Seconds = 60,
    as_json: AsJson = False,
) -> None:
    """Ask an agent and stream its answer; what is asked goes on there whatever happens here."""
    remote = Remote(url, identity, bearer, certificate, key, trust, binding, patience)
    answer, sent = asyncio.run(_ask(remote, to or remote.agent(), _content(message), window, is_quiet=as_json))
    if answer.media and out is not None:
        out.write_bytes(answer.data)
    if as_json:
        told = {"id": sent.envelope.id_text, "stream_id": sent.stream_id, "from": sent.peer, "text": answer.text}
        media: list[JSONValue] = [{"mime": medium.mime, "bytes": len(medium.data)} for medium in answer.media]
        put_json({**told, "media": media, "signed": answer.is_signed, "payload": answer.payload})
    elif answer.media and out is None:
        kinds = ", ".join(f"{len(medium.data)} bytes of {medium.mime}" for medium in answer.media)
        say(f"the answer has {kinds}; --out FILE keeps the first")
    if not answer.is_signed:
        say("the agent has not signed this answer", style="yellow")


@app.command()
def send(
    url: Url,
    intent: Annotated[
        str, typer.Argument(metavar="INTENT", help="inform, propose, notify, cancel, subscribe, ask ...")
    ],
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="The content; - reads it from stdin.")] = "",
    to: To = None,
    reply_to: Annotated[str | None, typer.Option(metavar="ID", help="The id of the envelope that it is about.")] = None,
    stream: Annotated[str | None, typer.Option(metavar="ID", help="The stream that it opens or is about.")] = None,
    type: MediaType = "text/plain",
    wait: Annotated[bool, typer.Option(help="Wait for the decision on a proposal.")] = False,
    identity: IdentityFile = None,
    bearer: Bearer = None,
    certificate: Certificate = None,
    key: CertificateKey = None,
    trust: TrustFile = None,
    binding: Via = BindingName.H2,
    patience: Seconds = 60,
    as_json: AsJson = False,
) -> None:
    """Send an envelope, and show its id and the stream that it has opened."""
    remote = Remote(url, identity, bearer, certificate, key, trust, binding, patience)
    if wait and intent != "propose":
        raise InvalidInput("--wait is for propose; `perdure uamp ask` waits for an answer")
    content = _content(message) if message == "-" else message
    sent, decision = asyncio.run(
        _send(remote, intent, content, to or remote.agent(), type, reply_to, stream, wait=wait)
    )
    shown = {"id": sent.envelope.id_text, "stream_id": sent.stream_id}
    if decision is not None:
        shown |= {"decision": decision.intent.value, "reason": decision.reason}
    if as_json:
        put_json({**shown})
    else:
        put_fields(shown.items())


@app.command()
def manifest(url: Url, trust: TrustFile = None, as_json: AsJson = False) -> None:
    """Fetch an agent's manifest, verify it and show what the agent takes."""
    found = asyncio.run(_manifest(Remote(url, trust=trust)))
    if as_json:
        put_json({"did": found.did, "url": found.url, "sha256": found.sha256, "manifest": found.value})
        return
    rows = [("signed by", found.did), *((name, _plain(value)) for name, value in found.value.items())]
    put_fields(rows)


@app.command()
def hub(url: Url, trust: TrustFile = None, as_json: AsJson = False) -> None:
    """Fetch a server's hub, follow what it lists and verify all of it."""
    found = asyncio.run(_hub(Remote(url, trust=trust)))
    if as_json:
        listed: list[JSONValue] = [
            {"did": item.child.did, "url": item.child.url, "depth": item.depth, "kind": item.kind, "fault": item.fault}
            for item in found.listed
        ]
        anchors: list[JSONValue] = [{"type": anchor.type, "value": anchor.value} for anchor in found.anchors]
        put_json({"did": found.did, "url": found.url, "trust_anchors": anchors, "listed": listed})
        return
    say(f"signed by {found.did}")
    cells = [["  " * item.depth + item.child.did, item.kind, item.fault or "verified"] for item in found.listed]
    put_table(("agent", "is", "state"), cells)


app.command("proposals")(uamp_proposals.proposals)
app.command("answer")(uamp_proposals.answer)
app.command("identity")(uamp_identity.identity)
app.add_typer(uamp_keys.app, name="keys")


def _content(message: str) -> str:
    return checked_text(sys.stdin.read() if message == "-" else message, "MESSAGE")


def _plain(value: JSONValue) -> object:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return ", ".join(f"{name} {item}" for name, item in value.items()) if isinstance(value, dict) else value


async def _ask(remote: Remote, to: str, content: str, window: int | None, *, is_quiet: bool) -> tuple[Answer, Sent]:
    from perdure.uamp_envelope_client import AnswerCollector, ConnectionBroken, DeltaType

    async with remote.client() as client:
        sent = await client.send("ask", content, to=to, delta_window=window)
        consumer, collector, shown = client.consumer(sent), AnswerCollector(), ""
        async with aclosing(consumer.frames()) as frames:
            async for delta in frames:
                collector.add(delta)
                text = delta.payload.get("text")
                if not is_quiet and delta.type is DeltaType.CHUNK and isinstance(text, str):
                    put_text(text)
                    shown += text
                if delta.type.is_terminal:
                    answer = collector.answer(delta, is_signed=consumer.is_signed)
                    if not is_quiet and answer.text:
                        put_text(("" if shown == answer.text else f"\n{answer.text}" if shown else answer.text) + "\n")
                    return answer, sent
    raise ConnectionBroken("the stream has no end")


async def _send(
    remote: Remote,
    intent: str,
    content: str,
    to: str,
    type: str,
    reply_to: str | None,
    stream: str | None,
    *,
    wait: bool,
) -> tuple[Sent, Decision | None]:
    async with remote.client() as client:
        sent = await client.send(intent, content, to=to, type=type, reply_to=reply_to, stream_id=stream)
        return sent, await client.decision(sent) if wait else None


async def _manifest(remote: Remote) -> Manifest:
    from perdure.runtime.outbound import trusting
    from perdure.uamp_envelope_client import Directory

    directory = Directory(remote.keys(), trust=trusting(remote.known_trust(), "PERDURE_UAMP_TRUST"))
    return await directory.manifest(remote.server, remote.manifest_path())


async def _hub(remote: Remote) -> HubView:
    from perdure.runtime.outbound import trusting
    from perdure.uamp_envelope_client import Directory

    context = trusting(remote.known_trust(), "PERDURE_UAMP_TRUST")
    return await Directory(remote.keys(), trust=context, allow_private=remote.is_here).hub(remote.server)
