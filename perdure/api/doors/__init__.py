"""The wire protocols that the HTTP server speaks besides its own API: each a thin door to the runtime."""
