"""Finding the user's app: `module:attribute`, imported from the current folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from perdure.errors import InvalidInput
from perdure.uap.app import App


def load_app(target: str) -> App:
    """The app that `target` names.

    Args:
        target: `package.module:attribute`, for example `agents:app`.

    Raises:
        InvalidInput: it cannot be read, imported or found, or is no App; the message says which.
    """
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise InvalidInput(f"{target!r} names no app; write MODULE:ATTRIBUTE, for example agents:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise InvalidInput(f"no module {module_name!r} in {here} or on the Python path") from error
        raise InvalidInput(f"module {module_name!r} needs {error.name!r}, which is not installed") from error
    except Exception as error:
        raise InvalidInput(f"module {module_name!r} cannot be imported: {type(error).__name__}: {error}") from error
    app = getattr(module, attribute, None)
    if app is None:
        raise InvalidInput(f"module {module_name!r} has no {attribute!r}")
    if not isinstance(app, App):
        raise InvalidInput(f"{target} is a {type(app).__name__}; it must be an App: app = App(agents=[...])")
    return app
