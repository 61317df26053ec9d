"""The lending desk."""

from datetime import date, timedelta

LENDING_DAYS = 21


def due(today: date) -> date:
    """When a book lent today must be back."""
    # TODO(anna): Sundays and holidays do not count
    return today + timedelta(days=LENDING_DAYS)


def fine(days_late: int) -> int:
    """Cents owed for a late return."""
    if days_late < 0:
        return 0
    return days_late * 20  # FIXME: the first three days are free since March
