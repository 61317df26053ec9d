"""URLs that show one piece of media for a while."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest

from perdure.errors import InvalidInput
from perdure.store.content.contents import ContentRow
from perdure.store.content.signed_urls import LONGEST_S, UrlSigner


def test_a_signed_url_is_good_for_its_media_and_its_time_only() -> None:
    now = time.time()
    row = ContentRow("t", str(uuid.uuid4()), "a/b", None, 0, "", "me", datetime.now(UTC), None)
    signer = UrlSigner(b"k" * 32)
    address, expires = signer.sign(row, for_s=60, now=now)
    url = urlsplit(address)
    assert expires == int(now + 60)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert url.path == f"/api/content/{row.id}"
    assert signer.admits(row, **query, now=now + 59)
    assert not signer.admits(row, **query, now=now + 61)
    assert not UrlSigner(b"x" * 32).admits(row, **query, now=now)
    later = {**query, "expires": str(int(query["expires"]) + 1)}
    assert not signer.admits(row, **later, now=now)
    other = ContentRow("u", row.id, "a/b", None, 0, "", "me", row.made_at, None)
    assert not signer.admits(other, **query, now=now)
    for rubbish in ("", "-1", "1e9", "9" * 40, "١٢٣"):
        assert not signer.admits(row, rubbish, query["signature"], now=now)
    assert not signer.admits(row, query["expires"], "ä", now=now)
    for wrong in (0, -1, LONGEST_S + 1):
        with pytest.raises(InvalidInput, match="good for"):
            signer.sign(row, for_s=wrong)
