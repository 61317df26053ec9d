"""The tests: a package, so that they share `tests.scale` and the like by one name."""
