"""When a key is needed by vendors whose wire other servers speak too."""

from __future__ import annotations

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._bearer import bearer_key, is_own_address

OWN = "https://api.acme.example/v1"


@pytest.mark.parametrize(
    ("base_url", "own"),
    [
        (None, True),
        ("", True),
        (OWN, True),
        ("http://API.ACME.example:8443/other", True),
        ("https://eu.api.acme.example/v1", True),
        ("https://acme.example/v1", False),
        ("https://notapi.acme.example/v1", False),
        ("https://api.acme.example.evil.example/v1", False),
        ("http://localhost:8080/api.acme.example", False),
        ("api.acme.example/v1", False),
    ],
)
def test_the_vendors_own_address_is_its_host_or_one_below(base_url: str | None, own: bool) -> None:
    assert is_own_address(base_url, OWN) is own


@pytest.mark.parametrize("base_url", [None, OWN, "http://localhost:8080/v1"])
@pytest.mark.parametrize(("given", "found"), [("given", "given"), (None, "from-the-environment")])
async def test_a_key_that_is_there_is_used_everywhere(
    base_url: str | None, given: str | None, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_KEY", "from-the-environment")
    config = ProviderConfig(api_key=given, base_url=base_url)
    assert await bearer_key(config, OWN, ["ACME_KEY"], "acme") == found


@pytest.mark.parametrize("base_url", [None, OWN])
async def test_the_vendor_itself_is_not_asked_without_one(
    base_url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACME_KEY", raising=False)
    with pytest.raises(UPPError, match="set ACME_KEY") as caught:
        await bearer_key(ProviderConfig(base_url=base_url), OWN, ["ACME_KEY"], "acme")
    assert (caught.value.code, caught.value.provider) == (ErrorCode.AUTHENTICATION_FAILED, "acme")


async def test_another_server_may_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACME_KEY", raising=False)
    config = ProviderConfig(base_url="http://localhost:8080/v1")
    assert await bearer_key(config, OWN, ["ACME_KEY"], "acme") is None


async def test_a_key_that_cannot_be_had_is_an_error_at_another_server_too() -> None:
    def broken() -> str:
        raise OSError("the safe is locked")

    config = ProviderConfig(api_key=broken, base_url="http://localhost:8080/v1")
    with pytest.raises(UPPError) as caught:
        await bearer_key(config, OWN, ["ACME_KEY"], "acme")
    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
