"""Settings: where they come from, and what is said of one that cannot be used."""

from __future__ import annotations

import os
import traceback
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from perdure.config import Settings, load_settings
from perdure.errors import InvalidInput
from perdure.upp.prices import Price


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder and an environment without settings."""
    for name in list(os.environ):
        if name.upper().startswith("PERDURE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return tmp_path


def test_without_anything_said_the_defaults_are_for_one_machine(folder: Path) -> None:
    settings = load_settings()
    assert settings == Settings()
    assert (settings.temporal_address, settings.database_url) == (None, None)
    assert (settings.temporal_namespace, settings.task_queue, settings.tenant) == ("default", "perdure", "default")
    assert settings.data_folder == folder / ".perdure"
    assert (settings.max_concurrent_workflow_tasks, settings.max_cached_workflows) == (20, 1000)
    assert settings.shutdown_grace == timedelta(seconds=5)
    assert (settings.continue_as_new_events, settings.message_cache_bytes) == (3000, 256 * 1024 * 1024)


def test_an_option_goes_before_the_environment_and_the_environment_before_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "pyproject.toml").write_text('[tool.perdure]\ntenant = "a"\ntask_queue = "a"\ntemporal_namespace = "a"\n')
    monkeypatch.setenv("PERDURE_TENANT", "b")
    monkeypatch.setenv("PERDURE_TASK_QUEUE", "b")
    settings = load_settings(tenant="c", task_queue=None)
    assert (settings.tenant, settings.task_queue, settings.temporal_namespace) == ("c", "b", "a")


def test_the_nearest_pyproject_above_the_current_folder_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pyproject.toml").write_text('[tool.perdure]\ntenant = "near"\n')
    below = folder / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert load_settings().tenant == "near"


def test_names_of_variables_are_a_list_by_commas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().redact_env == ()
    (folder / "pyproject.toml").write_text('[tool.perdure]\nredact_env = ["A", "B"]\n')
    assert load_settings().redact_env == ("A", "B")
    monkeypatch.setenv("PERDURE_REDACT_ENV", "STRIPE_KEY, SMTP_PASSWORD,")
    assert load_settings().redact_env == ("STRIPE_KEY", "SMTP_PASSWORD")
    monkeypatch.setenv("PERDURE_REDACT_ENV", "A B")
    with pytest.raises(InvalidInput, match="PERDURE_REDACT_ENV"):
        load_settings()


def test_filterable_keys_are_a_list_a_word_for_none_or_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing said leaves a database as it is, which the empty list does not."""
    assert load_settings().filterable_metadata is None
    (folder / "pyproject.toml").write_text('[tool.perdure]\nfilterable_metadata = ["none", "a.b"]\n')
    assert load_settings().filterable_metadata == ("none", "a.b")
    monkeypatch.setenv("PERDURE_FILTERABLE_METADATA", "team, channel")
    assert load_settings().filterable_metadata == ("team", "channel")
    monkeypatch.setenv("PERDURE_FILTERABLE_METADATA", "none")
    assert load_settings().filterable_metadata == ()
    for wrong in ("a b", "a:b", 'x"', ",".join(f"key{n}" for n in range(21))):
        monkeypatch.setenv("PERDURE_FILTERABLE_METADATA", wrong)
        with pytest.raises(InvalidInput, match="PERDURE_FILTERABLE_METADATA"):
            load_settings()


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_TEMPORAL_ADDRESS", "")
    assert load_settings().temporal_address is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("7", 7.0), ("0.5", 0.5), ("PT1M", 60.0)], ids=["whole", "fraction", "iso8601"]
)
def test_a_duration_is_seconds_or_iso8601(monkeypatch: pytest.MonkeyPatch, text: str, seconds: float) -> None:
    monkeypatch.setenv("PERDURE_SHUTDOWN_GRACE", text)
    assert load_settings().shutdown_grace == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("TEMPORAL_ADDRESS", "localhost", "127.0.0.1:7233"),
        ("TEMPORAL_ADDRESS", "http://localhost:7233", "127.0.0.1:7233"),
        ("TEMPORAL_ADDRESS", "localhost:70000", "127.0.0.1:7233"),
        ("TEMPORAL_NAMESPACE", "a namespace", "letters"),
        ("DATABASE_URL", "mysql://localhost/x", "postgresql://USER:PASSWORD@HOST:PORT/NAME"),
        ("TASK_QUEUE", "-", "letters"),
        ("TENANT", "a/b", "letters"),
        ("TENANT", "ä", "letters"),
        ("MAX_CONCURRENT_WORKFLOW_TASKS", "1", "at least 2"),
        ("MAX_CACHED_WORKFLOWS", "many", "at least 0"),
        ("SHUTDOWN_GRACE", "soon", "seconds"),
        ("SHUTDOWN_GRACE", "-1", "seconds"),
        ("SHUTDOWN_GRACE", "inf", "seconds"),
        ("CONTINUE_AS_NEW_EVENTS", "99", "100"),
        ("MESSAGE_CACHE_BYTES", "256MB", "bytes"),
        ("LIMITS", "openai=8", "max_concurrent"),
        ("BUILD_ID", "a b", "letters"),
        ("WORKER_VERSIONING", "sometimes", "auto_upgrade"),
        ("OTEL", "perhaps", "1 or 0"),
        ("LIMITS", '{"providers": {"openai": {"max_concurent": 8}}}', "max_concurrent"),
        ("LIMITS", '{"tenants": {"*": {"requests_per_second": 0}}}', "above 0"),
        ("LIMITS", '{"lease_s": 0}', "1 to 600"),
        ("MAX_CONCURRENT_ACTIVITIES", "0", "at least 1"),
        ("MAX_TASK_QUEUE_ACTIVITIES_PER_SECOND", "0", "more than 0"),
    ],
)
def test_a_bad_value_is_refused_with_its_variable_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, remedy: str
) -> None:
    monkeypatch.setenv(f"PERDURE_{name}", value)
    with pytest.raises(InvalidInput) as caught:
        load_settings()
    assert f"PERDURE_{name}" in str(caught.value)
    assert remedy in str(caught.value)


def test_a_bad_value_of_the_file_is_refused_with_its_place(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.perdure]\nmax_cached_workflows = "many"\n')
    with pytest.raises(InvalidInput, match=r"max_cached_workflows of \[tool.perdure\] in pyproject.toml"):
        load_settings()


def test_a_word_of_the_file_that_is_no_setting_is_refused(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.perdure]\ntask_que = "x"\n')
    with pytest.raises(InvalidInput, match="'task_que', which is no setting"):
        load_settings()


@pytest.mark.parametrize("content", [b"[tool.perdure\n", b"\xff"], ids=["no toml", "no text"])
def test_a_file_that_cannot_be_read_is_refused(folder: Path, content: bytes) -> None:
    (folder / "pyproject.toml").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"pyproject\.toml cannot be read"):
        load_settings()


def test_prices_come_from_the_file_exactly(folder: Path) -> None:
    """TOML's floats too: what is written is what is meant."""
    (folder / "pyproject.toml").write_text(
        '[tool.perdure.prices.openai."gpt-5"]\ninput = 0.00125\noutput = "0.01"\ncache_read = 0.000125\n'
    )
    expected = Price(Decimal("0.00125"), Decimal("0.01"), Decimal("0.000125"))
    assert load_settings().prices == {"openai": {"gpt-5": expected}}


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"openai": {"gpt-5": {"input": "1"}}}', '{"openai": {"gpt-5": {"input": "-1", "output": "1"}}}'],
    ids=["no json", "a list", "no output", "negative"],
)
def test_prices_that_cannot_be_used_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PERDURE_PRICES", text)
    with pytest.raises(InvalidInput, match=r"PERDURE_PRICES.* cannot be used\. It must be a table of prices"):
        load_settings()


def test_a_bad_option_is_named_as_the_option() -> None:
    with pytest.raises(InvalidInput, match=r"^tenant is 'a b'"):
        load_settings(tenant="a b")


def test_the_database_password_is_never_shown() -> None:
    settings = load_settings(database_url="postgresql://u:hunter2@h/db")
    assert "hunter2" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_the_refusal_of_a_database_address_does_not_show_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URL", "mysql://u:hunter2@h/db")
    with pytest.raises(InvalidInput) as caught:
        load_settings()
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_limits_come_from_the_environment_or_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As JSON, or as tables."""
    text = "[tool.perdure.limits.providers.openai]\nrequests_per_minute = 120\n[tool.perdure.limits.tenants.acme]\nmax_concurrent = 2\n"
    (folder / "pyproject.toml").write_text(text)
    limits = load_settings().limits
    assert limits.providers["openai"].per_second == 2
    assert limits.tenants["acme"].max_concurrent == 2
    monkeypatch.setenv("PERDURE_LIMITS", '{"providers": {"openai/gpt-5": {"max_concurrent": 3}}, "lease_s": 5}')
    limits = load_settings().limits
    assert limits.providers["openai/gpt-5"].max_concurrent == 3
    assert limits.lease_s == 5
