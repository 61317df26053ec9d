"""Where a Gemini model is called, and which generation of models an id belongs to."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit, urlunsplit

from perdure.upp.provider_config import ProviderConfig

PROVIDER = "google"

_HOST = "https://generativelanguage.googleapis.com"
_VERSION = "v1beta"
_ENDS_WITH_VERSION = re.compile(r"/v\d[a-z0-9]*$")
_COLLECTIONS = ("models/", "tunedModels/")
_BEFORE_GEMINI_3 = re.compile(r"gemini-[12]\b|gemini-pro\b(?!-latest)|gemma|learnlm")


def model_url(config: ProviderConfig, model_id: str, method: str, query: str = "") -> str:
    """Returns the whole address of a model's method.

    Args:
        config: its base URL may end with the API's version; else the version is appended. A query stays.
        model_id: with or without "models/" or "tunedModels/" before it.
        method: as "generateContent".
        query: the method's own, as "alt=sse".
    """
    parts = urlsplit(config.base_url or _HOST)
    base = parts.path.rstrip("/")
    if _ENDS_WITH_VERSION.search(base) is None:
        base = f"{base}/{config.api_version or _VERSION}"
    collection, name = _split(model_id)
    path = f"{base}/{collection}{quote(name, safe='')}:{method}"
    return urlunsplit(parts._replace(path=path, query="&".join(text for text in (parts.query, query) if text)))


def is_before_gemini_3(model_id: str) -> bool:
    """Returns whether a model is known to be older than Gemini 3; an unknown name is taken for a new one."""
    collection, name = _split(model_id)
    return collection == "tunedModels/" or _BEFORE_GEMINI_3.match(name) is not None


def _split(model_id: str) -> tuple[str, str]:
    for collection in _COLLECTIONS:
        if model_id.startswith(collection):
            return collection, model_id.removeprefix(collection)
    return _COLLECTIONS[0], model_id
