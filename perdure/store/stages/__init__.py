"""Stage sessions in rows: definitions, sessions with their state, actions and waits.

Every write is one transaction under the session's head row; what is repeated changes nothing and is answered as before.
"""
