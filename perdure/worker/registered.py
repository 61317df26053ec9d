"""The secrets that a worker or API process knows from its start on, and so keeps out of all that it stores and says."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from perdure.config import Settings
from perdure.uap.app import App
from perdure.upp.redaction import known_secrets
from perdure.upp.secrets import Secret


def register_secrets(settings: Settings, database_url: str, app: App | None = None) -> None:
    """Know the secrets of the settings, those that the settings name, and the app's.

    Args:
        settings: of the process.
        database_url: its password is a secret if it is long enough to be told from other text.
        app: whose secrets must be there.

    Raises:
        InvalidInput: one that is named is not there, or too plain to be looked for; its name is in the message.
    """
    register_settings(settings)
    known_secrets.learn("database-password", unquote(urlsplit(database_url).password or ""))
    if app is not None:
        app.register_secrets()


def register_settings(settings: Settings) -> None:
    """Know the secrets that can be known before anything else is: while an app is imported, it may say one. See above."""
    for name in settings.redact_env:
        Secret(f"env:{name}").register(name)
    for name in type(settings).model_fields:
        value: object = getattr(settings, name)
        if isinstance(value, SecretStr) and name != "database_url":  # its password is learned by itself
            for part in re.split(r"[,:\s]+", value.get_secret_value()):  # of ID:KEY, and of several, each key
                known_secrets.learn(f"PERDURE_{name.upper()}", part)
