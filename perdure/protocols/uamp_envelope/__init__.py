"""The UAMP envelope, version 1.0, on the wire: signed messages, delta streams, manifests. No I/O, no clock, no store.

Fetching DID documents, remembering ids against replay and serving the bindings stand above, on what is here.
"""
