"""Signed envelopes, their exchanges and the frames of their streams, as rows that all processes share.

Who changes an exchange holds its row. After the commit the caller announces `SessionKey(tenant, exchange id)` to those who
stream it; nothing in here does.
"""
