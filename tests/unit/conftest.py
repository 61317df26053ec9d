"""Property tests: no time limit per example, since a busy machine must not turn them red; as many examples as the scale."""

from __future__ import annotations

from hypothesis import settings

from tests.scale import scaled

settings.register_profile("perdure", deadline=None, max_examples=max(25, scaled(100)))
settings.load_profile("perdure")
