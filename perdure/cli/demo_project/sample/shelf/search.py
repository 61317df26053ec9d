"""Finds books by title."""


def matches(title: str, wanted: str) -> bool:
    """Whether a title holds the wanted words."""
    # TODO: Groß- und Kleinschreibung, Straße = STRASSE, 図書館 ohne Leerzeichen suchen 📚
    return all(word in title for word in wanted.split())
