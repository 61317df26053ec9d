"""What other agents' servers are told who asks, out of its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.runtime.envelopes.client.tls import ClientCertificate
from perdure.runtime.envelopes.credentials import Credential, read_credential

URL = "https://agents.example"
TOKEN = "a token that is long enough to be a secret, 4711"


def kept(folder: Path, value: Any) -> Path:
    """The file."""
    file = folder / "credentials.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    return file


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"bearer": TOKEN}, Credential(TOKEN)),
        ({"bearer": "of all", "agents": {"lead": {"bearer": TOKEN}}}, Credential(TOKEN)),
        ({"bearer": TOKEN, "agents": {"other": {"bearer": "other's"}}}, Credential(TOKEN)),
        ({"agents": {"other": {"bearer": "other's"}}}, Credential()),
        ({}, Credential()),
    ],
)
def test_an_agent_has_its_own_or_that_of_all(tmp_path: Path, entry: Any, expected: Credential) -> None:
    file = kept(tmp_path, {"https://other.example": {"bearer": "no"}, URL: entry})
    assert read_credential(file, URL, "lead") == expected
    assert read_credential(file, f"{URL}:443", "lead") == expected
    assert read_credential(file, f"{URL}:8443", "lead") == Credential()
    assert read_credential(None, URL, "lead") == Credential()


def test_a_certificate_is_found_beside_the_file(tmp_path: Path) -> None:
    file = kept(tmp_path, {URL: {"certificate": "me.pem", "key": "/keys/me.key"}})
    certificate = ClientCertificate(tmp_path / "me.pem", Path("/keys/me.key"))
    assert read_credential(file, URL, "lead") == Credential(None, certificate)


@pytest.mark.parametrize(
    "value",
    [
        "no json",
        [],
        {URL: TOKEN},
        {URL: {"bearer": 1}},
        {URL: {"token": TOKEN}},
        {URL: {"certificate": TOKEN}},
        {URL: {"agents": [TOKEN]}},
        {URL: {"agents": {"lead": TOKEN}}},
    ],
)
def test_a_file_of_another_form_is_refused_without_showing_it(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_credential(kept(tmp_path, value), URL, "lead")
    assert TOKEN not in str(refused.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_credential(tmp_path / "none.json", URL, "lead")
    assert TOKEN not in repr(Credential(TOKEN))
