"""Media by id: what messages name instead of carrying it, and the URLs that show it."""
