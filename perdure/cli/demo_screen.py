"""What the demo shows, on a terminal as in a log. Nothing from the audited folder is read as markup."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from perdure.cli.demo_timeline import Span, Step, bars

if TYPE_CHECKING:  # it loads the store, for which the first line need not wait
    from perdure.cli.demo_figures import Figures

_LOG_COLUMNS = 120
_BAR_LEAST, _BAR_MOST = 10, 40
_BESIDE_BAR = 52
_SAID_COLUMNS = 60


class Screen:
    """The demo's output: plain lines, and on a terminal a status line below them."""

    def __init__(self) -> None:
        """Write to standard output."""
        out: object = sys.stdout
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors="backslashreplace")  # a terminal that lacks a character ends no demo
        self._console = Console(highlight=False)
        if not self._console.is_terminal and "COLUMNS" not in os.environ:
            self._console = Console(highlight=False, width=_LOG_COLUMNS)
        self._status = self._console.status("")
        self._began = time.monotonic()

    def working(self, what: str) -> None:
        """Show what is being waited for, on a terminal only."""
        self._status.update(Text(what, style="dim"))
        self._status.start()

    def close(self) -> None:
        """Take the status line away."""
        self._status.stop()

    def say(self, line: str, *, style: str = "") -> None:
        """Write one line, with the seconds since the demo began; a log gets it whole, a terminal what fits."""
        text = Text.assemble((f"{time.monotonic() - self._began:6.2f} s  ", "dim"), (line, style))
        if self._console.is_terminal:
            self._console.print(text, no_wrap=True, overflow="ellipsis")
        else:
            self._console.print(text, soft_wrap=True)

    def step(self, step: Step) -> None:
        """Write a line for a step that has been done."""
        said = step.said if len(step.said) <= _SAID_COLUMNS else step.said[: _SAID_COLUMNS - 1] + "…"
        self.say(f"step {step.number:2}  {said}{f'  → {step.label}' if step.calls else ''}")

    def last_words(self, text: str) -> None:
        """Show what a worker wrote to its standard error."""
        self.close()
        self._console.print(Text(f"The worker's last words:\n{text}", style="dim"), soft_wrap=True)

    def report(self, markdown: str) -> None:
        """Show the auditor's report: rendered on a terminal, as it is in a log."""
        self._heading("The auditor's report")
        if self._console.is_terminal:
            from rich.markdown import Markdown  # it loads lexers for half a second, which a log does not need

            self._console.print(Markdown(markdown))
        else:
            self._console.print(Text(markdown.rstrip()), soft_wrap=True)

    def timeline(self, spans: Sequence[Span]) -> None:
        """Show when each step was done, the crash among them."""
        self._heading("The run's time, with the crash in it")
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(justify="right", no_wrap=True, min_width=2)
        table.add_column(justify="right", no_wrap=True, min_width=7)
        table.add_column(no_wrap=True)
        table.add_column(overflow="ellipsis", no_wrap=True)
        columns = max(_BAR_LEAST, min(_BAR_MOST, self._console.width - _BESIDE_BAR))
        full, gap = ("#", ".") if self._console.options.ascii_only else ("█", "░")
        for span, cells in zip(spans, bars(spans, columns), strict=True):
            style = "red" if span.step is None else "green"
            bar = Text(cells.replace("#", full).replace(".", gap), style=style)
            label = Text(span.label, style=style if span.step is None else "")
            table.add_row("" if span.step is None else str(span.step), f"{span.begin_s:.2f} s", bar, label)
        self._console.print(table)

    def figures(self, figures: Figures) -> None:
        """Show what the run cost and left."""
        self._heading("Figures")
        run, history, stored = figures.run, figures.history, figures.stored
        steps = max(run.step, 1)
        tools = ", ".join(f"{name} {count}" for name, count in figures.runs_by_tool.items())
        executions = "one execution" if history.executions == 1 else f"{history.executions} executions"
        rows = {
            "run": run.status,
            "steps": str(run.step),
            "model calls bought": f"{figures.bought} by the ledger, {stored.answers} answers stored",
            "tool runs": f"{figures.tool_runs} by the ledger ({tools}), {stored.results} results stored",
            "duplicates": str(figures.duplicates),
            "history": f"{history.events} events, {history.size_bytes:,} bytes in {executions}: "
            f"{history.events / steps:.1f} events and {history.size_bytes / steps:,.0f} bytes a step",
        }
        if figures.recovery_s is not None:
            rows["recovery"] = (
                f"{figures.recovery_s:.2f} s from the kill to the next worker's first effect, "
                f"{figures.start_s:.2f} s of them to start it"
            )
        if run.started_at is not None and run.ended_at is not None:
            rows["run time"] = f"{(run.ended_at - run.started_at).total_seconds():.2f} s, recovery included"
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True, style="bold")
        table.add_column()
        for name, value in rows.items():
            table.add_row(name, value)
        self._console.print(table)

    def verdict(self, problems: Sequence[str]) -> None:
        """End with whether the demo showed what it is for."""
        self._console.print()
        for problem in problems:
            self._console.print(Text(f"FAILED: {problem}", style="bold red"))
        if not problems:
            self._console.print(
                Text(
                    "The run survived its worker: nothing was lost, nothing was paid or done twice.", style="bold green"
                )
            )

    def _heading(self, text: str) -> None:
        self._console.print()
        self._console.print(Rule(text, align="left"))
