"""The middleware that comes with Perdure; `perdure.middleware` is its front door."""
