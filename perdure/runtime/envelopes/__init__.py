"""What serves envelopes of UAMP without a transport: the desk that takes them in, streams, identities, and a client."""
