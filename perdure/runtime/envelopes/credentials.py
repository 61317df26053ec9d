"""What other agents' servers are told who asks: a bearer token or a client certificate for each, out of one file.

The file is read for each ask, so what is changed in it counts at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from perdure.errors import InvalidInput
from perdure.runtime.envelopes.client.tls import ClientCertificate
from perdure.upp.json_value import JSONObject
from perdure.upp.redaction import known_secrets

_HTTPS_PORT = 443
_NAMES = ({"bearer"}, {"certificate", "key"}, {"bearer", "certificate", "key"})


@dataclass(frozen=True, slots=True)
class Credential:
    """What one server is told.

    Attributes:
        bearer: an OAuth token or API key; None for none.
        certificate: a client certificate with its key; None for none.
    """

    bearer: str | None = field(default=None, repr=False)
    certificate: ClientCertificate | None = None


def read_credential(file: Path | None, url: str, agent: str) -> Credential:
    """What a server is told.

    Args:
        file: JSON, {"https://HOST[:PORT]": {"bearer": ...} or {"certificate": PATH, "key": PATH}}, and beside these or in
            their place {"agents": {NAME: the same for one agent}}: a token stands for one name. None for nothing.
        url: of the server.
        agent: who asks.

    Raises:
        InvalidInput: the file cannot be read or is of another form; it shows nothing of what the file holds.
    """
    if file is None:
        return Credential()
    try:
        value: object = json.loads(file.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from error
    except ValueError:
        raise InvalidInput(f"{file} is no JSON") from None
    for name, entry in _object(file, "the file", value).items():
        if _origin(name) == _origin(url):
            of_all = dict(_object(file, name, entry))
            of_agents = _object(file, name, of_all.pop("agents", {}))
            if agent in of_agents:
                return _credential(file, f"{name}, {agent}", _object(file, name, of_agents[agent]))
            return _credential(file, name, of_all) if of_all else Credential()
    return Credential()


def _object(file: Path, what: str, value: object) -> JSONObject:
    if not isinstance(value, dict):
        raise InvalidInput(f"{file}: {what[:80]} must be an object")
    return cast(JSONObject, value)


def _credential(file: Path, what: str, value: JSONObject) -> Credential:
    if set(value) not in _NAMES or not all(isinstance(item, str) for item in value.values()):
        raise InvalidInput(f"{file}: {what[:80]} needs a bearer, or a certificate and its key")
    entry = cast("dict[str, str]", value)
    bearer = entry.get("bearer")
    if bearer is not None:
        known_secrets.learn("uamp-credential", bearer)
    if "key" not in entry:
        return Credential(bearer)
    return Credential(bearer, ClientCertificate(file.parent / entry["certificate"], file.parent / entry["key"]))


def _origin(url: str) -> tuple[str | None, int]:
    try:
        found = urlsplit(url)
        return found.hostname, found.port or _HTTPS_PORT
    except ValueError:
        return None, 0
