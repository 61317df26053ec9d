"""What a session and a response ask of their run. Source: UAMP 1.0, sections 5.12 and 8.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from perdure.protocols.uamp_events.capabilities import Capabilities, common_modalities, output_modalities
from perdure.protocols.uamp_events.client_events import ResponseCreate
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.session_config import ResponseFormat, SessionConfig
from perdure.uap.options import RunOptions

PARAMS = ("temperature", "top_p", "max_tokens", "stop", "seed", "presence_penalty", "frequency_penalty")
"""Of a provider's extensions: what a client may set of the model's parameters."""


def run_options(
    config: SessionConfig,
    asked: ResponseCreate,
    system: Sequence[str],
    server: Capabilities,
    client: Capabilities | None = None,
) -> RunOptions:
    """The options of a response's run. Instructions stand below the agent's own.

    Args:
        config: the session's.
        asked: what this response does otherwise.
        system: texts that extend the instructions.
        server: what the server can do.
        client: what the client declared that it can take.

    Raises:
        EventRefused: an output modality that the server does not have.
    """
    override = asked.response
    modalities = override.modalities if override is not None else None
    given = output_modalities(server)
    missing = [name for name in modalities or () if name not in given]
    if missing:
        raise EventRefused(
            Code.UNSUPPORTED_MODALITY,
            f"the agent cannot answer with {', '.join(missing)}; it has {', '.join(given)}",
            details={"supported": [*given]},
        )
    own = override.instructions if override is not None and override.instructions is not None else config.instructions
    texts = [text for text in (own, *system) if text]
    tools = override.tools if override is not None and override.tools is not None else config.tools
    wanted = asked.response_format or config.response_format
    forms = common_modalities(modalities or config.modalities, server, client)
    return RunOptions(
        instructions="\n\n".join(texts) or None,
        params=_params(config, server),
        response_format=None if wanted is None else format_option(wanted),
        modalities=forms if forms and forms != ["text"] else None,
        client_tools=[cast("dict[str, Any]", tool.declared()) for tool in tools or ()],
    )


def format_option(wanted: ResponseFormat) -> dict[str, Any] | None:
    """A response format as a run's option; None for plain text."""
    return None if wanted.type == "text" else cast("dict[str, Any]", wanted.to_json())


def _params(config: SessionConfig, server: Capabilities) -> dict[str, Any]:
    given = (config.extensions or {}).get(server.provider)
    return {name: given[name] for name in PARAMS if name in given} if isinstance(given, dict) else {}
