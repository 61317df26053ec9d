"""UAMP events: sessions of conversations over WebSocket, and over HTTP with server-sent events. Source: UAMP 1.0."""
