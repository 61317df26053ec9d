"""Fines."""

from shelf.app import fine


def test_nothing_is_owed_for_an_early_return() -> None:
    assert fine(-1) == 0
