"""UAP-1.0 without I/O: agents, strategies, run state, and the ports that a host fills."""
