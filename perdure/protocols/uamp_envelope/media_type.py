"""The media types of UAMP, and which Content-Type an envelope may come with. Source: UAMP envelope 1.0, 11 and C.1."""

from __future__ import annotations

from perdure.protocols.uamp_envelope.error import Code, UAMPError

ENVELOPE_MEDIA_TYPE = "application/uamp+json;v=1"
MANIFEST_MEDIA_TYPE = "application/manifest+jws"
FLATTENED_MEDIA_TYPE = "application/jose+json"

_ENVELOPE = "application/uamp+json"


def check_content_type(header: str | None) -> None:
    """Checks the Content-Type that an envelope came with; the parameter `v` may be left out.

    Raises:
        UAMPError: 4.15.
    """
    kind, *parameters = (part.strip() for part in (header or "").split(";"))
    if kind.lower() != _ENVELOPE:
        raise UAMPError(
            Code.UNSUPPORTED, f"an envelope is sent as {ENVELOPE_MEDIA_TYPE}, not as {kind[:60] or 'nothing'}"
        )
    for parameter in filter(None, parameters):
        name, _, value = parameter.partition("=")
        value = value.strip().strip('"').lower()
        if (name.strip().lower(), value) not in (("v", "1"), ("charset", "utf-8")):
            raise UAMPError(Code.UNSUPPORTED, f"the media type parameter {parameter[:40]!r} is not known; use v=1")
