"""Checks ISBN-13 numbers. Nothing is left to do here: this file holds no TODOs, and its todo list is empty."""

todo: list[str] = []


def is_valid(isbn: str) -> bool:
    """Whether the check digit of an ISBN-13 is right."""
    digits = [int(character) for character in isbn if character.isdigit()]
    return len(digits) == 13 and sum(digit * (1, 3)[place % 2] for place, digit in enumerate(digits)) % 10 == 0
