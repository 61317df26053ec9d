"""Whatever is done to a session, in whatever order: it is what its document says, and old branches stay as they were.

The model is naive: per node the list of all texts of its history, written down when they are said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from perdure.uap.persistence import memory, storage_key
from perdure.uap.session import Session, session
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject
from tests.conformance.uap_session_stage import BREAK, LOOK, Talker, texts

T = TypeVar("T")


@dataclass
class Conversation:
    """A run as it ends if nothing fails.

    Attributes:
        history: all texts of its node's history at its end.
        ends: how many of them there are after each step.
    """

    history: list[str]
    ends: list[int]


class Sessions(RuleBasedStateMachine):
    """Runs, failing runs, forks, checkouts, restores, saves and loads."""

    nodes: Bundle[str] = Bundle("nodes")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.talker = Talker(rounds=2)
        self.agent = self.talker.agent()
        self.adapter = memory()
        self.session = session(self.agent, persistence=self.adapter)
        self.histories: dict[str, list[str]] = {self.root: []}
        self.taken: dict[str, tuple[Conversation, int]] = {}
        self.documents: dict[str, JSONObject] = {}
        self.count = 0

    def teardown(self) -> None:
        self.loop.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @property
    def root(self) -> str:
        return self.session.thread_tree.root.id

    @property
    def current(self) -> str:
        return self.session.thread_tree.current.id

    def said(self, node: str) -> list[str]:
        return texts(self.session.thread_tree.history(node))

    @rule(target=nodes)
    def name_the_root(self) -> str:
        return self.root

    @rule(kind=st.sampled_from(["say", LOOK, BREAK]))
    def run(self, kind: str) -> None:
        self.count += 1
        text, before, known = f"{kind} {self.count}", self.histories[self.current], len(self.session.checkpoints)
        whole = [*before, text, *([] if kind == "say" else [LOOK, "seen w0", LOOK, "seen w1"]), f"re: {text}"]
        conversation = Conversation(whole, [*range(len(before) + 3, len(whole), 2), len(whole)])
        try:
            turn = self.wait(self.session.run(text))
        except UPPError:
            assert kind == BREAK
        else:
            assert texts(turn.messages) == whole[len(before) :]
            self.histories[self.current] = whole
        assert len(self.session.checkpoints) == known + len(conversation.ends) - (kind == BREAK)
        self.note(conversation, known, 0)

    def note(self, conversation: Conversation, known: int, steps: int) -> None:
        """Write down the checkpoints after the first `known`, which are of the steps after the first `steps`."""
        for place, item in enumerate(self.session.checkpoints[known:], steps):
            assert item.step == place + 1
            assert item.state.done == (item.step == len(conversation.ends))
            self.taken[item.id] = conversation, item.step
            self.documents[item.id] = item.to_json()
        assert self.session.current_checkpoint is self.session.checkpoints[-1]

    def history_at(self, checkpoint: str) -> list[str]:
        conversation, step = self.taken[checkpoint]
        return conversation.history[: conversation.ends[step - 1]]

    @rule(target=nodes, node=nodes)
    def fork(self, node: str) -> str:
        current = self.current
        made = self.session.fork(node)
        assert self.current == current
        self.histories[made] = list(self.histories[node])
        return made

    @rule(node=nodes)
    def checkout(self, node: str) -> None:
        self.session.thread_tree.checkout(node)

    @rule(target=nodes, data=st.data())
    def restore(self, data: st.DataObject) -> str:
        if not self.taken:
            return self.root
        chosen = data.draw(st.sampled_from(sorted(self.taken, key=list(self.taken).index)))
        self.wait(self.session.restore(chosen))
        self.histories.setdefault(self.current, self.history_at(chosen))
        assert self.said(self.current) == self.history_at(chosen)
        current = self.session.current_checkpoint
        assert current is not None
        assert (current.id, self.session.state) == (chosen, current.state)
        return self.current

    @rule()
    def load_what_was_saved(self) -> None:
        self.wait(self.session.save())
        document = self.session.to_json()
        text = self.wait(self.adapter.load(storage_key(self.session.id)))
        self.session = Session.from_json(text, self.agent, persistence=self.adapter)
        assert self.session.to_json() == document

    @rule(node=consumes(nodes))
    def look_back(self, node: str) -> None:
        """Forget a name, so that others come up."""
        assert node in self.histories

    @invariant()
    def every_history_is_what_was_said(self) -> None:
        assert {node: self.said(node) for node in self.session.thread_tree.nodes} == self.histories

    @invariant()
    def no_checkpoint_changes(self) -> None:
        assert {item.id: item.to_json() for item in self.session.checkpoints} == self.documents

    @invariant()
    def the_document_says_it_all(self) -> None:
        document = self.session.to_json()
        again = Session.from_json(document, self.agent)
        assert again.to_json() == document
        assert self.session.current_checkpoint is None or again.state == self.session.state
        assert {node: texts(again.thread_tree.history(node)) for node in self.histories} == self.histories


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
