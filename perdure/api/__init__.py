"""The HTTP server: sessions, the protocols' doors, authentication and the dashboard.

It maps requests to `perdure.runtime` and rows to responses. It runs no workflow and no activity; wire models belong in
`perdure.protocols`.
"""
