"""SQL files of the revisions. A revision runs them whole; a released file never changes."""

from __future__ import annotations

from importlib.resources import files

from alembic import op


def run_file(name: str) -> None:
    """Run one SQL file of this folder, statement by statement."""
    text = files("perdure.migrations.sql").joinpath(name).read_text(encoding="utf-8")
    for statement in _statements(text):
        op.get_bind().exec_driver_sql(statement)


def _statements(text: str) -> list[str]:
    """The statements of a file; a `;` inside `$$ ... $$` or a comment ends none."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    parts = "\n".join(lines).split("$$")
    statements: list[str] = []
    current = ""
    for index, part in enumerate(parts):
        if index % 2:
            current += f"$${part}$$"
            continue
        *ended, rest = part.split(";")
        for piece in ended:
            statements.append(current + piece)
            current = ""
        current += rest
    return [statement.strip() for statement in [*statements, current] if statement.strip()]
