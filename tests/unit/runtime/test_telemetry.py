"""OpenTelemetry as an extra: refused where it is not installed, not imported where it is off; whose trace a submit is of."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perdure.runtime.telemetry import derived_id
from perdure.runtime.trace_context import is_traceparent, submitting, under

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

WITHOUT = """
import sys
import perdure.api.serve, perdure.cli.main, perdure.worker.main
extra = [name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))]
assert not extra, extra
sys.modules["opentelemetry.sdk.trace"] = None
from perdure.errors import InvalidInput
from perdure.runtime.telemetry import start_telemetry
try:
    start_telemetry("perdure-worker")
except InvalidInput as error:
    print(error)
"""


def test_the_extra_is_neither_needed_nor_imported_when_it_is_off() -> None:
    """And where it is switched on without being installed, the error says how to install it."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pip install 'perdure[otel]'" in done.stdout
    assert "PERDURE_OTEL" in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        PARENT + "-00",
        PARENT.upper(),
        PARENT.replace("00-", "01-", 1),
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01",
        PARENT + "\n",
    ],
)
def test_what_is_no_traceparent_is_ignored(text: str) -> None:
    """A header is a stranger's: it is stored only if it is whole."""
    assert not is_traceparent(text)
    with under(text), submitting("a") as trace:
        assert trace is None


def test_a_submit_belongs_to_the_trace_that_it_was_called_in() -> None:
    """Inside the block only."""
    with under(PARENT):
        with submitting("a") as trace:
            assert trace == PARENT
        with under(None), submitting("a") as trace:
            assert trace is None
    with submitting("a") as trace:
        assert trace is None


def test_ids_of_spans_follow_from_the_run() -> None:
    """The same everywhere, never zero, other ones for other steps."""
    assert derived_id(8, "run", 1) == derived_id(8, "run", 1)
    assert len({derived_id(8, "run"), derived_id(8, "run", 1), derived_id(8, "run", 11), derived_id(16, "run")}) == 4
    assert 0 < derived_id(16, "run") < 2**128
