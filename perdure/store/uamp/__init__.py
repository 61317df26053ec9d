"""Sessions of UAMP as rows, so that any process can take a session's next event and no connection has to last."""
