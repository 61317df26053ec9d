"""The wire protocols: their models and mappings, without I/O. Serving them is `perdure.api`'s part."""
