"""The files that run Perdure on several machines, read and compared: containers cannot be started here.

`compose-spec.json` is the Compose Specification's own schema (Apache-2.0), as the package check-jsonschema 0.39.0 ships it.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest
import yaml
from jsonschema import Draft202012Validator

from perdure.api.models import LONGEST_WAIT_SECONDS
from perdure.api.patience import Patience
from perdure.config import Settings, load_settings
from perdure.embedded.temporal import DYNAMIC_CONFIG

ROOT = Path(__file__).parents[2]
SCHEMA = Path(__file__).with_name("compose-spec.json")
SCHEMA_SHA256 = "d549057ebc2925f39f62799eab0db7b9e2c18b35b6c00595199116da3ed10e64"
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
Service: TypeAlias = dict[str, Any]


def services() -> dict[str, Service]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def ours() -> dict[str, Service]:
    return {name: service for name, service in services().items() if "build" in service}


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def interpolated(value: str, given: dict[str, str] | None = None) -> str:
    """What compose makes of `${NAME:-default}`; every variable here has a default, so that none has to be given."""
    names = given or {}
    return re.sub(r"\$\{([A-Z_]+):-([^}]*)\}", lambda found: names.get(found[1]) or found[2], value)


def environment_of(name: str, **given: str) -> dict[str, str]:
    """A service's environment as its container gets it."""
    return {key: interpolated(value, given) for key, value in services()[name]["environment"].items()}


def settings_of(name: str, monkeypatch: pytest.MonkeyPatch, **given: str) -> Settings:
    for variable, value in environment_of(name, **given).items():
        monkeypatch.setenv(variable, value)
    return load_settings()


def seconds_of(value: str) -> int:
    found = re.fullmatch(r"(\d+)s", value)
    assert found is not None
    return int(found[1])


def test_the_file_is_valid_by_the_specifications_schema() -> None:
    assert hashlib.sha256(SCHEMA.read_bytes()).hexdigest() == SCHEMA_SHA256, "as it was published"
    validator: Any = Draft202012Validator(json.loads(SCHEMA.read_text()))
    written = yaml.safe_load(text_of("docker-compose.yml"))
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(written)] == []
    written["services"]["api"]["health_check"] = {}
    assert [error.json_path for error in validator.iter_errors(written)] == ["$.services.api"], "it notices"


def test_every_variable_has_a_default() -> None:
    text = re.sub(r"^\s*#.*$", "", text_of("docker-compose.yml"), flags=re.MULTILINE).replace("$$", "")
    assert re.findall(r"\$(?!\{[A-Z_]+:-[^}]*\})\S*", text) == []


@pytest.mark.parametrize("name", services())
def test_a_service_has_something_to_run(name: str) -> None:
    service = services()[name]
    assert service.get("build") or service.get("image")
    if "build" not in service:
        assert re.fullmatch(r"[a-z/-]+:[0-9.]+", service["image"]), "an image of others is pinned"


@pytest.mark.parametrize("name", services())
def test_a_service_waits_for_services_that_can_reach_what_is_awaited(name: str) -> None:
    known = services()
    for awaited, how in known[name].get("depends_on", {}).items():
        assert awaited in known
        assert how["condition"] in CONDITIONS
        if how["condition"] == "service_healthy":
            assert known[awaited]["healthcheck"]["test"]
        if how["condition"] == "service_completed_successfully":
            assert known[awaited]["restart"].startswith("on-failure"), "a job that may try again, and ends"


@pytest.mark.parametrize("name", ["worker", "api"])
def test_processes_are_several_and_start_on_a_current_schema(name: str) -> None:
    service = services()[name]
    assert service["deploy"]["replicas"] >= 2
    assert service["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert service["restart"] == "unless-stopped"
    assert "container_name" not in service, "there is one of a name"


@pytest.mark.parametrize("name", ["worker", "api"])
def test_a_process_is_not_killed_before_its_own_deadline(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`perdure.worker.deadline`: it is gone 3 s after its grace time."""
    grace = settings_of(name, monkeypatch).shutdown_grace
    assert timedelta(seconds=seconds_of(services()[name]["stop_grace_period"])) > grace + timedelta(seconds=3)


@pytest.mark.parametrize("name", ["migrate", "worker", "api"])
def test_settings_of_a_service_can_be_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand in the file, and with every variable given that it passes on."""
    settings = settings_of(name, monkeypatch)
    assert settings.temporal_address == "temporal:7233"
    empty = (settings.encryption_keys, settings.jwt_issuer, settings.requests_per_second, settings.build_id)
    assert empty == (None, None, None, None), "an empty variable is none"
    settings = settings_of(name, monkeypatch, POSTGRES_PASSWORD="s3cret", AGENTS_TASK_QUEUE="mine")
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://perdure:s3cret@postgres:5432/perdure"
    assert settings.task_queue == "mine"


def test_settings_of_the_services_are_settings_of_perdure() -> None:
    known = {f"PERDURE_{name.upper()}" for name in Settings.model_fields}
    for service in ours().values():
        given = set(service["environment"])
        assert given <= known
        assert {"PERDURE_TEMPORAL_ADDRESS", "PERDURE_DATABASE_URL"} <= given


def test_addresses_name_services_and_their_ports() -> None:
    for service in ours().values():
        assert service["environment"]["PERDURE_TEMPORAL_ADDRESS"] == "temporal:7233"
        assert "@postgres:5432/" in service["environment"]["PERDURE_DATABASE_URL"]
    assert {"temporal", "postgres"} <= set(services())


def test_commands_of_the_services_are_commands_of_perdure() -> None:
    for service in ours().values():
        name, *arguments = service["command"]
        called = [Path(sys.executable).with_name("perdure"), name, "--help"]
        helped = subprocess.run(called, capture_output=True, text=True, check=False)
        assert helped.returncode == 0, helped.stderr
        assert len(arguments) == (1 if name == "worker" else 0)


def test_api_processes_are_asked_whether_they_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of("api", monkeypatch)
    asked = services()["api"]["healthcheck"]["test"]
    assert asked[:3] == ["CMD", "python", "-c"], "the image has no other client"
    assert f"http://127.0.0.1:{settings.api_port}/ready" in asked[3]
    compile(asked[3], "healthcheck", "exec")
    assert settings.api_host == "0.0.0.0", "reached by the gateway, and so only with authentication"
    assert "ports" not in services()["api"], "a published port can be one replica's only"


def test_one_published_address_leads_to_all_api_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of("api", monkeypatch)
    gateway, text = services()["gateway"], text_of("deploy/gateway/nginx.conf")
    assert f"set $api api:{settings.api_port};" in text
    assert "proxy_pass http://$api;" in text, "by a variable: the name is resolved again when replicas come and go"
    (port,) = gateway["ports"]
    listens = re.search(r"listen (\d+);", text)
    assert listens is not None
    assert port == f"127.0.0.1:8700:{listens[1]}"
    assert f"http://127.0.0.1:{listens[1]}/health" in gateway["healthcheck"]["test"]
    assert "./deploy/gateway/nginx.conf:/etc/nginx/conf.d/default.conf:ro" in gateway["volumes"]
    assert gateway["depends_on"]["api"]


def test_the_gateway_lets_streams_through() -> None:
    """Events at once and for long, sockets upgraded, bodies left to the API's own bounds, nothing done twice."""
    lines = {line.strip() for line in text_of("deploy/gateway/nginx.conf").splitlines()}
    assert {"proxy_buffering off;", "proxy_http_version 1.1;", "client_max_body_size 0;"} <= lines
    assert {"proxy_set_header Upgrade $http_upgrade;", "proxy_set_header Connection $connection_upgrade;"} <= lines
    assert "proxy_next_upstream error timeout;" in lines, "without non_idempotent"
    reads = next(line for line in lines if line.startswith("proxy_read_timeout "))
    silent = max(LONGEST_WAIT_SECONDS, Patience().silence_s)
    assert seconds_of(reads.split()[1].rstrip(";")) > silent


def test_the_ui_may_be_given_a_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pages ask the API, which lets in those that come from where the UI is published."""
    assert environment_of("temporal-ui")["TEMPORAL_CODEC_ENDPOINT"] == ""
    (published,) = services()["temporal-ui"]["ports"]
    host, port, _ = published.split(":")
    assert f"http://{host}:{port}" in settings_of("api", monkeypatch).codec_origins


def test_all_processes_have_the_same_keys() -> None:
    """One that lacks them could open nothing of what the others stored."""
    for name in ours():
        assert environment_of(name, PERDURE_ENCRYPTION_KEYS="k1:abc")["PERDURE_ENCRYPTION_KEYS"] == "k1:abc"


def test_nothing_listens_beyond_this_machine() -> None:
    for service in services().values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_temporal_is_configured_as_the_embedded_server_is() -> None:
    written = yaml.safe_load(text_of("deploy/temporal/dynamicconfig.yaml"))
    assert {key: entries[0]["value"] for key, entries in written.items()} == DYNAMIC_CONFIG
    assert all(len(entries) == 1 and set(entries[0]) == {"value"} for entries in written.values())


def test_temporal_reads_that_configuration() -> None:
    temporal = services()["temporal"]
    folder = "/etc/temporal/config/dynamicconfig"
    assert f"./deploy/temporal:{folder}:ro" in temporal["volumes"]
    path = temporal["environment"]["DYNAMIC_CONFIG_FILE_PATH"]
    assert Path("/etc/temporal", path) == Path(folder, "dynamicconfig.yaml")


def test_temporal_is_the_version_that_the_tests_run_on() -> None:
    binary = Path(sys.executable).with_name("temporal")
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    server = re.search(r"Server (\d+\.\d+\.\d+)", said)
    ui = re.search(r"UI (\d+\.\d+\.\d+)", said)
    assert server is not None
    assert ui is not None
    assert services()["temporal"]["image"] == f"temporalio/server:{server[1]}"
    assert services()["temporal-schema"]["image"] == f"temporalio/admin-tools:{server[1]}"
    assert services()["temporal-ui"]["image"] == f"temporalio/ui:{ui[1]}"


def test_the_image_is_built_with_the_uv_that_developers_use() -> None:
    pin = re.search(r"^UV_PIN := (uv==\S+)$", text_of("Makefile"), re.MULTILINE)
    assert pin is not None
    assert f"pip install --no-cache-dir {pin[1]}\n" in text_of("Dockerfile")


def test_the_image_copies_only_what_is_let_in() -> None:
    let_in = {line[1:] for line in text_of(".dockerignore").splitlines() if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text_of("Dockerfile"), re.MULTILINE)
    assert {name for line in copied for name in line.split()} == let_in
    assert all((ROOT / name).exists() for name in let_in)


def test_the_image_runs_perdure_without_privileges() -> None:
    lines = text_of("Dockerfile").splitlines()
    last_stage = lines[max(number for number, line in enumerate(lines) if line.startswith("FROM ")) :]
    assert 'ENTRYPOINT ["perdure"]' in last_stage, "the process gets its SIGTERM itself"
    assert "USER perdure" in last_stage
    assert lines.index("USER perdure") < lines.index('ENTRYPOINT ["perdure"]')
    assert not [line for line in lines if line.startswith(("ARG ", "ADD "))], "nothing comes in but by COPY"


def test_the_image_has_a_python_that_perdure_may_run_on() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    bases = re.findall(r"^FROM python:3\.(\d+)-slim", text_of("Dockerfile"), re.MULTILINE)
    assert len(bases) == 2
    assert len(set(bases)) == 1, "both stages have the same interpreter, or the environment has none"
    least = re.search(r">=\s*3\.(\d+)", project["requires-python"])
    assert least is not None
    assert int(bases[0]) >= int(least[1])
    extras = set(re.findall(r"--extra (\S+)", text_of("Dockerfile")))
    assert extras <= set(cast("dict[str, Any]", project["optional-dependencies"]))
    assert not extras & {"dev", "embedded"}, "servers are services of their own"
