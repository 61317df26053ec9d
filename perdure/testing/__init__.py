"""What tests of agents need, ours and users': crash points."""
