"""The files that run Perdure on several machines, read and compared: containers cannot be started here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from perdure.config import Settings
from perdure.embedded.temporal import DYNAMIC_CONFIG

ROOT = Path(__file__).parents[2]
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
Service: TypeAlias = dict[str, Any]


def services() -> dict[str, Service]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def ours() -> dict[str, Service]:
    return {name: service for name, service in services().items() if "build" in service}


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


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


def test_workers_are_several_and_start_on_a_current_schema() -> None:
    worker = services()["worker"]
    assert worker["deploy"]["replicas"] >= 2
    assert worker["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    grace = re.fullmatch(r"(\d+)s", worker["stop_grace_period"])
    assert grace is not None
    assert int(grace[1]) > Settings.model_fields["shutdown_grace"].default.total_seconds()


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
    assert 'ENTRYPOINT ["perdure"]' in last_stage
    assert "USER perdure" in last_stage
