"""Settings of the UAMP envelope's door. They are among `perdure.config.Settings`, which says where they come from."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints
from pydantic_settings import BaseSettings

from perdure.config_values import absolute, not_negative, positive, seconds


class EnvelopeSettings(BaseSettings):
    """What the envelope's door was told."""

    uamp_host: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]{1,200}(:[0-9]{1,5})?$")] | None = Field(
        default=None,
        description="the name under which others reach this server, such as agents.example or localhost:8700: its agents are "
        "did:web of it; or nothing for localhost and the API's port",
    )
    uamp_grpc_port: int | None = Field(
        default=None, ge=0, le=65535, description="a port for the gRPC binding, 0 for a free one, or nothing for none"
    )
    uamp_client_ca: Annotated[Path, AfterValidator(absolute)] | None = Field(
        default=None,
        description="a PEM file with the authorities whose client certificates are taken (mTLS), or nothing",
    )
    uamp_trust: Annotated[Path, AfterValidator(absolute)] | None = Field(
        default=None,
        description="a PEM file with authorities that other agents' servers may have certificates of, besides the system's",
    )
    uamp_allow_private: bool = Field(
        default=False, description="1 if other agents may be at addresses of private networks and of this machine, or 0"
    )
    uamp_allow_http1: bool = Field(
        default=False, description="1 if envelopes are taken over HTTP/1.1 too (always over TLS), or 0"
    )
    uamp_keys: Annotated[Path, AfterValidator(absolute)] | None = Field(
        default=None, description='a JSON file with keys of other agents, {"DID": {"keys": [JWK, ...]}}, or nothing'
    )
    uamp_credentials: Annotated[Path, AfterValidator(absolute)] | None = Field(
        default=None,
        description="a JSON file with what other agents' servers are told who asks, "
        '{"https://HOST": {"bearer": ...} or {"certificate": PATH, "key": PATH}}, or nothing',
    )
    uamp_token_issuers: Annotated[Path, AfterValidator(absolute)] | None = Field(
        default=None,
        description='a JSON file with keys of issuers of cap_token, {"ISSUER": {"keys": [JWK, ...]}}, or nothing',
    )
    uamp_needs_cap_token: bool = Field(
        default=False, description="1 if every envelope but those about an open exchange needs a cap_token, or 0"
    )
    uamp_hub: Annotated[Path, AfterValidator(absolute)] | None = Field(
        default=None,
        description='a JSON file with what the hub lists besides this server\'s agents, {"manifests": [...], "trust_anchors": [...]}, '
        "or nothing",
    )
    uamp_max_envelope_bytes: int = Field(
        default=1024 * 1024,
        ge=1024,
        le=16 * 1024 * 1024,
        description="the greatest envelope in bytes, 1024 to 16777216",
    )
    uamp_rate_per_hour: int | None = Field(
        default=None, ge=1, description="how many envelopes one sender may send in an hour, or nothing for no limit"
    )
    uamp_max_open: int = Field(
        default=1000,
        ge=1,
        description="how many exchanges may be in progress at once; more are told to come again later",
    )
    uamp_max_open_of_sender: int = Field(
        default=500,
        ge=1,
        description="how many of them one sender may have in progress at once, so that it leaves room for others",
    )
    uamp_max_window: int = Field(
        default=1024, ge=1, le=1024, description="how many deltas a stream sends without an ACK at most, 1 to 1024"
    )
    uamp_stall: Annotated[timedelta, BeforeValidator(seconds), AfterValidator(positive)] = Field(
        default=timedelta(seconds=30),
        description="how long a connected consumer may leave a full window without an ACK, in seconds above 0 or as PT30S",
    )
    uamp_freshness: Annotated[timedelta, BeforeValidator(seconds), AfterValidator(positive)] = Field(
        default=timedelta(seconds=300),
        description="how far an envelope's time may be from this server's clock, in seconds above 0 or as PT300S",
    )
    uamp_stream_retention: Annotated[timedelta, BeforeValidator(seconds), AfterValidator(not_negative)] = Field(
        default=timedelta(days=1),
        description="how long an exchange that has ended can be read again, in seconds or as PT86400S",
    )
    uamp_proposals: Literal["person", "agent"] = Field(
        default="person", description="who answers a proposal: person (perdure uamp proposals) or agent"
    )
