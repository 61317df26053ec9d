"""Settings of a process: where its servers are and how much it may take on.

They come from the environment (`PERDURE_*`), else from `[tool.perdure]` in the nearest pyproject.toml, else from the
defaults here. Only `cli`, `api` and `worker` read them; everything lower gets what it needs as arguments, and workflow
code gets it in its input.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import astuple
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, StringConstraints, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    PyprojectTomlConfigSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from perdure.config_envelope import EnvelopeSettings
from perdure.config_values import absolute, not_negative, positive, seconds
from perdure.errors import InvalidInput
from perdure.uap.shared_limits import SharedLimits
from perdure.upp.prices import Price

_PREFIX = "PERDURE_"
_TABLE = ("tool", "perdure")
_MIB = 1024 * 1024
_NO_KEYS = "none"
_FORWARD = "DELEGATE_FORWARD_THINKING"
"""As UAMP spells it. Source: UAMP 1.0, section 6.13."""


def _host_and_port(value: str) -> str:
    host, _, port = value.rpartition(":")
    if not host or "/" in value or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError("no host and port")
    return value


def _postgres_url(value: SecretStr) -> SecretStr:
    scheme, separator, rest = value.get_secret_value().partition("://")
    if scheme not in {"postgresql", "postgres"} or not separator or not rest:
        raise ValueError("no PostgreSQL address")
    return value


def _no_gifts(value: Prices) -> Prices:
    amounts = [amount for models in value.values() for price in models.values() for amount in astuple(price)]
    if any(amount is not None and amount < 0 for amount in amounts):
        raise ValueError("negative")
    return value


def _limits(value: SharedLimits) -> SharedLimits:
    try:
        value.check()
    except InvalidInput as error:
        raise ValueError(str(error)) from error
    return value


def _split(value: object) -> object:
    """A text, as the environment gives it, is a list by its commas."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


def _keys(value: object) -> object:
    """Likewise; a word of its own says that there are none, for nothing says that they stay as they are."""
    return () if value == _NO_KEYS else _split(value)


Prices: TypeAlias = dict[str, dict[str, Price]]
Variable: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]

MetadataKey: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")]


class Settings(EnvelopeSettings):
    """What a process was told; a field's description says what a value must be. Made by `load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        pyproject_toml_table_header=_TABLE,
        pyproject_toml_depth=100,
    )

    temporal_address: Annotated[str, AfterValidator(_host_and_port)] | None = Field(
        default=None,
        description="the address of a Temporal server, such as 127.0.0.1:7233, or nothing for the embedded one",
    )
    temporal_namespace: Name = Field(
        default="default", description="a Temporal namespace: letters, digits, dots, dashes and underscores"
    )
    database_url: Annotated[SecretStr, AfterValidator(_postgres_url)] | None = Field(
        default=None,
        description="a PostgreSQL address, postgresql://USER:PASSWORD@HOST:PORT/NAME, or nothing for the embedded one",
    )
    encryption_keys: SecretStr | None = Field(
        default=None,
        description="ID:KEY or several, separated by commas, each key 32 bytes in base64, as `perdure encryption new-key` "
        "makes one; the first seals what is stored, all open it",
    )
    task_queue: Name = Field(
        default="perdure", description="a task queue's name: letters, digits, dots, dashes and underscores"
    )
    tenant: Name = Field(default="default", description="a tenant's id: letters, digits, dots, dashes and underscores")
    data_folder: Annotated[Path, AfterValidator(absolute)] = Field(
        default=Path(".perdure"),
        validate_default=True,
        description="the folder in which the embedded servers keep their data, taken from the current folder if relative",
    )

    max_concurrent_workflow_tasks: int = Field(
        default=20, ge=2, description="how many workflow tasks a worker runs at once, at least 2"
    )
    max_cached_workflows: int = Field(
        default=1000, ge=0, description="how many open sessions a worker keeps in memory between tasks, at least 0"
    )
    shutdown_grace: Annotated[timedelta, BeforeValidator(seconds), AfterValidator(not_negative)] = Field(
        default=timedelta(seconds=5),
        description="how long a stopping worker waits for what it has begun, in seconds or as PT5S",
    )
    continue_as_new_events: int = Field(
        default=3000,
        ge=100,
        le=40_000,
        description="the history length past which a session continues as new, 100 to 40000",
    )
    build_id: Name | None = Field(
        default=None,
        description="the build of the workers' code, letters, digits, dots, dashes and underscores, "
        "or nothing for workers without versions",
    )
    deployment_name: Name = Field(
        default="perdure",
        description="the deployment that a build is of: letters, digits, dots, dashes and underscores",
    )
    worker_versioning: Literal["auto_upgrade", "pinned"] = Field(
        default="auto_upgrade",
        description="what an open session does when another build becomes current, if there is a build: auto_upgrade goes "
        "on with that one, pinned stays",
    )
    otel: bool = Field(
        default=False,
        description="whether traces and metrics are sent by OpenTelemetry, to where the variables OTEL_* say, 1 or 0",
    )
    max_queued_inputs: int = Field(
        default=1000, ge=1, description="how many inputs may wait in one session's inbox, at least 1"
    )
    prices: Annotated[Prices, AfterValidator(_no_gifts)] = Field(
        default_factory=dict[str, dict[str, Price]],
        description="a table of prices by provider and model, each with input and output and perhaps cache_read and "
        'cache_write, per 1,000 tokens, such as {"openai": {"gpt-5": {"input": "0.00125", "output": "0.01"}}}',
    )
    limits: Annotated[SharedLimits, AfterValidator(_limits)] = Field(
        default_factory=SharedLimits,
        description='limits that all workers share, as {"providers": {NAME or NAME/MODEL: LIMIT}, "tenants": {TENANT or *: '
        'LIMIT}, "lease_s": 1 to 600 seconds}, where a LIMIT has requests_per_second or requests_per_minute above 0, burst '
        'and max_concurrent of at least 1, such as {"providers": {"openai": {"max_concurrent": 8}}}',
    )
    max_concurrent_activities: int | None = Field(
        default=None, ge=1, description="how many model and tool calls a worker runs at once, at least 1, or nothing"
    )
    max_task_queue_activities_per_second: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="how many model and tool calls a second all workers of the task queue begin together, more than 0, or "
        "nothing; the server keeps it",
    )
    message_cache_bytes: int = Field(
        default=256 * _MIB, ge=0, description="how many bytes of message bodies a process keeps in memory, at least 0"
    )

    jwt_issuer: str | None = Field(
        default=None, description="the issuer of the tokens that are accepted, as their claim iss has it"
    )
    jwt_audience: str | None = Field(
        default=None, description="the audience that tokens must be meant for, as their claim aud has it"
    )
    jwks_url: str | None = Field(
        default=None, description="an https:// address from which the issuer's keys are fetched (http:// on loopback)"
    )
    jwks_file: Path | None = Field(default=None, description="a file with the issuer's keys, a JSON Web Key Set")
    jwks_allow_private: bool = Field(
        default=False, description="true or false: whether the keys' address may lead into a private network"
    )
    jwt_tenant_claim: str = Field(default="tenant", description="the name of the claim that holds the tenant")
    jwt_scope_claim: str = Field(default="scope", description="the name of the claim that holds the scopes")
    max_request_depth: int = Field(
        default=100, ge=5, le=200, description="how many levels the JSON of a request may nest, 5 to 200"
    )
    max_request_items: int = Field(
        default=200_000, ge=100, description="how many values the JSON of a request may have, at least 100"
    )
    requests_per_second: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="how many requests a second a caller may send for long, more than 0, or nothing",
    )
    request_burst: int = Field(
        default=20, ge=1, description="how many requests a caller may send at once if their rate is limited, at least 1"
    )

    api_host: str = Field(
        default="127.0.0.1", min_length=1, description="the address that the HTTP server listens on, such as 127.0.0.1"
    )
    api_port: int = Field(
        default=8700, ge=0, le=65535, description="the port of the HTTP server, 0 to 65535; 0 takes a free one"
    )
    api_tls_cert: Path | None = Field(
        default=None,
        description="a PEM file with the HTTP server's certificate and its chain, or nothing for plain HTTP",
    )
    api_tls_key: Path | None = Field(
        default=None, description="a PEM file with the private key of the certificate, without a password"
    )
    codec_origins: tuple[Annotated[str, StringConstraints(pattern=r"^https?://[^/\s]+$")], ...] = Field(
        default=(),
        description="a JSON list of the origins of Temporal's UI whose pages may use /api/codec, such as "
        '["http://localhost:8233"]',
    )
    uaip_origins: tuple[Annotated[str, StringConstraints(pattern=r"^(\*|https?://[^/\s]+)$")], ...] = Field(
        default=("*",),
        description="a JSON list of the origins whose pages may use the stage workflows (UAIP), such as "
        '["https://shop.example"], or ["*"] for all that have a key',
    )
    uamp_origins: tuple[Annotated[str, StringConstraints(pattern=r"^(\*|https?://[^/\s]+)$")], ...] = Field(
        default=("*",),
        description="a JSON list of the origins whose pages may use UAMP over HTTP, such as "
        '["https://shop.example"], or ["*"] for all that have a key',
    )
    chat_origins: tuple[Annotated[str, StringConstraints(pattern=r"^(\*|https?://[^/\s]+)$")], ...] = Field(
        default=("*",),
        description="a JSON list of the origins whose pages may use the chat of the AI SDK (/api/chat), such as "
        '["https://shop.example"], or ["*"] for all that have a key',
    )
    signing_key: str = Field(
        default="stored",
        min_length=1,
        description="what signs responses: stored for a key that the database keeps, none, or a PEM file with RSA keys of at "
        "least 2048 bits, the first of which signs",
    )
    max_request_bytes: int = Field(
        default=32 * _MIB, ge=1024, description="how many bytes a request to the HTTP server may have, at least 1024"
    )

    max_content_bytes: int = Field(
        default=64 * _MIB,
        ge=1024,
        le=512 * _MIB,
        description="how many bytes one piece of stored media may have, uploaded or made by a tool, 1024 to 536870912",
    )

    delegate_forward_thinking: bool = Field(
        default=True,
        validation_alias=AliasChoices(_FORWARD.lower(), _FORWARD, _PREFIX + _FORWARD),
        description="1 if UAMP clients are shown what sub-agents think, as progress of the tool call, or 0",
    )

    redact_env: Annotated[tuple[Variable, ...], NoDecode, BeforeValidator(_split)] = Field(
        default=(),
        description="a list of environment variables, by commas, whose values are redacted in all that is stored and said, "
        "such as STRIPE_KEY,SMTP_PASSWORD",
    )
    filterable_metadata: Annotated[tuple[MetadataKey, ...] | None, NoDecode, BeforeValidator(_keys)] = Field(
        default=None,
        max_length=20,
        description="at most 20 keys of sessions' metadata, by commas, by which lists can be filtered, such as team,channel, or "
        "none for no key; nothing leaves it as it is. `perdure migrate` and `perdure dev` apply it. The values of these keys are "
        "stored clear, also where all else is sealed",
    )
    fold_after: Annotated[timedelta, BeforeValidator(seconds), AfterValidator(not_negative)] = Field(
        default=timedelta(seconds=60),
        description="how long after a run's end its deltas are folded in the event log, in seconds or as PT60S",
    )
    uamp_idle: Annotated[timedelta, BeforeValidator(seconds), AfterValidator(positive)] = Field(
        default=timedelta(days=1),
        description="how long a UAMP session without an open response may be silent before it ends, in seconds above 0 or "
        "as PT3600S",
    )
    uamp_retention: Annotated[timedelta, BeforeValidator(seconds), AfterValidator(not_negative)] = Field(
        default=timedelta(days=7),
        description="how long ended UAMP sessions are kept, and what was sent to them, in seconds or as PT604800S",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, PyprojectTomlConfigSettingsSource(settings_cls)


def load_settings(**given: Any) -> Settings:
    """The settings of this process.

    Args:
        given: values that go before the environment, such as a command's options; None means not given.

    Raises:
        InvalidInput: a value cannot be used, or pyproject.toml cannot be read. It names the variable and the remedy,
            and never shows the database's address.
    """
    given = {name: value for name, value in given.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        raise InvalidInput("\n".join(_explained(problem, given) for problem in error.errors())) from None
    except SettingsError as error:  # the environment has text where JSON must stand
        name = next((name for name in Settings.model_fields if f'"{name}"' in str(error)), "")
        raise InvalidInput(_unusable(_PREFIX + name.upper(), "", name)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidInput(f"the nearest pyproject.toml cannot be read: {error}. Correct it and try again.") from None


def _explained(problem: ErrorDetails, given: dict[str, Any]) -> str:
    name = str(problem["loc"][0])
    variable = _PREFIX + name.upper()
    if name == _FORWARD.lower() and _FORWARD in os.environ:
        variable = _FORWARD
    if name not in Settings.model_fields:
        return f"[tool.perdure] in pyproject.toml has {name!r}, which is no setting of Perdure. Remove or correct it."
    if name in given:
        place = name
    elif variable in {known.upper() for known in os.environ}:
        place = variable
    else:
        place = f"{name} of [tool.perdure] in pyproject.toml (or {variable})"
    shown = "" if name in ("database_url", "encryption_keys") else f" is {str(problem['input'])!r}, which"
    return _unusable(place, shown, name)


def _unusable(place: str, shown: str, name: str) -> str:
    return f"{place}{shown} cannot be used. It must be {Settings.model_fields[name].description}."
