"""Deterministic workflow code: the session workflow, its effects, and the strategies. No I/O, no settings, no clock."""
