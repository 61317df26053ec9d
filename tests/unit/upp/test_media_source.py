"""Sources of media."""

from __future__ import annotations

import pytest
from hypothesis import given

from perdure.upp.errors import UPPError
from perdure.upp.json_value import dumps, loads
from perdure.upp.media_source import (
    BytesSource,
    DocumentSource,
    ImageSource,
    document_source_from_json,
    image_source_from_json,
)
from tests.unit.upp import strategies as upp


@given(upp.image_sources)
def test_an_image_source_survives_json(source: ImageSource) -> None:
    """Type and data are kept."""
    assert image_source_from_json(loads(dumps(source.to_json()))) == source


@given(upp.document_sources)
def test_a_document_source_survives_json(source: DocumentSource) -> None:
    """Type and data are kept."""
    assert document_source_from_json(loads(dumps(source.to_json()))) == source


def test_bytes_keep_their_type_in_json() -> None:
    """A bytes source is base64 in JSON and still says bytes."""
    assert BytesSource(b"\xff").to_json() == {"type": "bytes", "data": "/w=="}


def test_an_image_is_not_text() -> None:
    """The sources of images and documents differ."""
    with pytest.raises(UPPError, match="unknown type 'text'"):
        image_source_from_json({"type": "text", "data": "x"})
    with pytest.raises(UPPError, match="unknown type 'bytes'"):
        document_source_from_json({"type": "bytes", "data": ""})


def test_media_is_not_printed() -> None:
    """A log line with a message does not carry megabytes."""
    assert repr(BytesSource(b"secret")) == "BytesSource()"
