"""What the command line, the API and the library use to reach Temporal and the store."""
