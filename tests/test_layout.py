"""The house stands as design part 3 draws it: names, root links and sizes of names that say something."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINKS = ("activities", "api", "migrations", "worker", "workflows")
PACKAGE = {
    *(
        "__init__.py",
        "py.typed",
        "execution.py",
        "errors.py",
        "config.py",
        "config_envelope.py",
        "config_values.py",
        "types.py",
        "payments.py",
        "uamp_envelope_client.py",
    ),
    *(
        "middleware",
        "upp",
        "uap",
        "uaip",
        "inprocess",
        "activities",
        "workflows",
        "store",
        "runtime",
        "worker",
        "protocols",
        "api",
    ),
    *("embedded", "cli", "migrations", "testing"),
}
TESTS = {
    *("__init__.py", "conftest.py", "scale.py", "skip_guard.py", "allowed_skips.txt", "wheel_smoke.py"),
    *("mutations.py", "mutations.toml", "seeds.py", "test_layout.py"),
    *("unit", "integration", "replay", "acceptance", "clients", "conformance", "typing"),
}
SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}


def ours(folder: Path) -> Iterator[Path]:
    """Everything below a folder that is neither a cache nor of the sample project that the demo audits."""
    return (path for path in folder.rglob("*") if not {"__pycache__", "sample"} & set(path.parts))


def python_files() -> list[Path]:
    return sorted(path for name in ("perdure", "tests") for path in ours(ROOT / name) if path.suffix == ".py")


def imported_roots(path: Path) -> Iterator[str]:
    """The first name of every absolute import in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("name", LINKS)
def test_the_root_link_leads_into_the_package(name: str) -> None:
    link = ROOT / name
    assert link.is_symlink()
    assert link.readlink() == Path("perdure", name)
    assert (link / "__init__.py").is_file()


def test_nothing_is_imported_through_a_root_link() -> None:
    bare = {str(path.relative_to(ROOT)): set(imported_roots(path)) & set(LINKS) for path in python_files()}
    assert {path: names for path, names in bare.items() if names} == {}


def test_the_package_has_the_names_of_the_design() -> None:
    assert {path.name for path in (ROOT / "perdure").iterdir()} - {"__pycache__"} <= PACKAGE


def test_the_tests_have_the_names_of_the_design() -> None:
    assert {path.name for path in (ROOT / "tests").iterdir()} - {"__pycache__"} <= TESTS


def test_every_folder_of_the_package_with_code_is_a_package() -> None:
    folders = {path.parent for path in ours(ROOT / "perdure") if path.suffix == ".py"}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_no_name_says_nothing() -> None:
    names = {path: path.stem.strip("_") for path in [*ours(ROOT / "perdure"), *ours(ROOT / "tests")]}
    assert [path for path, name in names.items() if name in SAYS_NOTHING or name.endswith("_v2")] == []
