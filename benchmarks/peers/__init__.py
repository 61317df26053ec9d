"""Other runtimes on the same work; each is run in an environment of its own, beside `requirements.txt`."""
