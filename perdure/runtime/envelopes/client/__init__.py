"""The client of UAMP's envelope: sends to other agents, reads their streams, and verifies what they sign.

`perdure.uamp_envelope_client` is what users import; nothing here needs a database.
"""
