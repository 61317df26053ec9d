"""The schema's revisions, shipped in the wheel and run by `perdure migrate`."""
