"""What a step costs: Perdure, a hand-written floor and other runtimes on the same scripted work."""
