"""Providers: adapters of `perdure.upp.provider` to vendors, and the scripted model."""

from perdure.upp.providers.scripted import scripted

__all__ = ["scripted"]
