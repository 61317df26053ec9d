"""Sessions as ThreadProtocol's threads: out, and in."""
