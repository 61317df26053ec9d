"""Where in the thread tree a checkpoint is gone on from, and where a resumed run's turn goes."""

from __future__ import annotations

from perdure.uap.session_checkpoints import THREAD_LENGTH, Checkpoint, same_messages
from perdure.uap.thread_node import ThreadNode
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.turn import Turn

RESTORED_FROM = "restoredFrom"


def thread_length(tree: ThreadTree, checkpoint: Checkpoint) -> int:
    """How many messages of the checkpoint's node are older than its run.

    Where the checkpoint does not say, as one of another system: those before the run's first message, or all.
    """
    messages = tree.nodes[checkpoint.thread_id].thread.messages
    told = checkpoint.metadata.get(THREAD_LENGTH)
    if isinstance(told, int) and not isinstance(told, bool) and told >= 0:
        return min(told, len(messages))
    first = checkpoint.spoken[:1]
    return next((place for place, item in enumerate(messages) if first and item.id == first[0].id), len(messages))


def restored_place(tree: ThreadTree, checkpoint: Checkpoint, *, branch_id: str | None = None) -> tuple[ThreadNode, int]:
    """The node whose history ends exactly where the checkpoint was taken, and how many of its messages are older.

    The node that the run worked on, if nothing has happened there since; the branch of an earlier restore, likewise;
    else a new branch, so that what has happened since stays what it is.

    Args:
        tree: the session's.
        checkpoint: of one of its nodes.
        branch_id: id of a new branch; drawn if left out.
    """
    origin, older = tree.nodes[checkpoint.thread_id], thread_length(tree, checkpoint)
    if _ends_with(origin, older, checkpoint):
        return origin, older
    for child in (tree.nodes[child_id] for child_id in origin.children):
        if child.metadata.get(RESTORED_FROM) == checkpoint.id and _ends_with(child, 0, checkpoint):
            return child, 0
    return restored_branch(tree, checkpoint, branch_id=branch_id), 0


def restored_branch(tree: ThreadTree, checkpoint: Checkpoint, *, branch_id: str | None = None) -> ThreadNode:
    """A new branch whose history ends exactly where the checkpoint was taken."""
    older = thread_length(tree, checkpoint)
    branch = tree.nodes[tree.branch(checkpoint.thread_id, id=branch_id, fork_index=older)]
    branch.thread.push(*checkpoint.spoken)
    branch.metadata[RESTORED_FROM] = checkpoint.id
    return branch


def _ends_with(node: ThreadNode, older: int, checkpoint: Checkpoint) -> bool:
    return not node.children and same_messages(node.thread.messages[older:], checkpoint.spoken)


def place_turn(tree: ThreadTree, node: ThreadNode, older: int, turn: Turn) -> ThreadNode:
    """Adds to a node what it lacks of the turn that follows its first `older` messages; returns the node.

    If something else follows there, it stays, and a new branch gets the turn and becomes the current node.
    """
    there = node.thread.messages[older:]
    if same_messages(there, turn.messages):
        return node
    if same_messages(there, turn.messages[: len(there)]):
        node.thread.push(*turn.messages[len(there) :])
        return node
    branch = tree.nodes[tree.branch(node.id, fork_index=older)]
    branch.thread.append(turn)
    tree.checkout(branch.id)
    return branch
