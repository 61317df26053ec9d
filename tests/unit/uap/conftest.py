"""Property tests here have no time limit per example: a busy machine must not turn them red."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("perdure-uap", deadline=None)
settings.load_profile("perdure-uap")
