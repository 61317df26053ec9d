"""The door of signed envelopes: UAMP 1.0's messages between agents, on every binding."""
