"""UAMP events 1.0: wire models, parsing, and the rules of sessions and responses, without I/O.

Source: Universal Agentic Message Protocol v1.0. Where the reference implementation differs, the specification stands.
"""
