"""The bytes that a signature covers, and the hash that names an envelope.

Source: UAMP envelope 1.0, sections 4.2 and 6.3. The specification's three rules are read as RFC 8785 of the whole
envelope without its own `sig`: the only published canonical form that fits them.
"""

from __future__ import annotations

from typing import Any, cast

import rfc8785

from perdure.protocols.uamp_envelope.error import malformed
from perdure.protocols.uamp_envelope.strict_json import check_value
from perdure.upp.json_value import JSONObject, sha256_hex


def canonical_bytes(envelope: JSONObject) -> bytes:
    """The envelope in canonical form, without its top-level `sig`.

    Only what is there counts: nothing is added for a member that has a default.

    Raises:
        UAMPError: 4.00 if a value has no canonical form.
    """
    return canonical_json({name: value for name, value in envelope.items() if name != "sig"})


def canonical_json(value: JSONObject) -> bytes:
    """Any JSON object in canonical form.

    Raises:
        UAMPError: 4.00 if a value has no canonical form.
    """
    check_value(value)
    try:
        return rfc8785.dumps(cast(Any, value))
    except rfc8785.CanonicalizationError as error:
        raise malformed(f"the value has no canonical form: {error}") from error


def envelope_sha256(envelope: JSONObject) -> str:
    """The hash of the canonical form: 64 lower-case hexadecimal digits."""
    return sha256_hex(canonical_bytes(envelope))


def signature_payload(sha256: str) -> bytes:
    """The payload of an envelope's signature.

    Args:
        sha256: 64 lower-case hexadecimal digits.
    """
    return f'{{"sha256":"{sha256}"}}'.encode("ascii")
