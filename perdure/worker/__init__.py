"""The worker process: its one Temporal plugin, the loading of a user's app, start-up checks and shutdown.

What a run does is in `perdure.workflows` and `perdure.activities`.
"""
