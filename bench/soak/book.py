# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a caller knows of one of its contexts, compared with what the service holds."""

# The text of an answer whose end the caller did not see.
UNSEEN = None


class Wrong(Exception):
    """The service has lost or changed what it acknowledged."""


class Book:
    """The acknowledged turns of a context, and at most one change in doubt.

    A change is in doubt when the caller left, or the service died, in the middle of it: it may have
    been kept or not, but as a whole. A turn is a list of messages (role, text).
    """

    def __init__(self):
        self.begin(0)

    def begin(self, revision):
        """A new context, with nothing in it."""
        self.turns = []
        self.revision = revision
        self.doubt = None

    def change(self, turns):
        self.turns = turns
        self.revision += 1
        self.doubt = None

    def with_turn(self, said, answers):
        return self.turns + [[("user", said)] + [("assistant", answer) for answer in answers]]

    def add(self, said, *answers):
        """A turn was acknowledged, with its answer if it has one."""
        self.change(self.with_turn(said, answers))

    def roll_back(self, n):
        self.change(self.turns[:-n])

    def doubt_add(self, said, *answers):
        self.doubt = self.with_turn(said, answers)

    def doubt_roll_back(self, n):
        self.doubt = self.turns[:-n]

    def compare(self, messages, revision):
        """Raises Wrong when @messages are neither what was acknowledged nor what is in doubt;
        otherwise the doubt is settled."""
        if self.doubt is not None and revision == self.revision + 1:
            self.change(self.doubt)
        self.doubt = None
        if revision != self.revision:
            raise Wrong(f"The context is at revision {revision}, acknowledged was {self.revision}")
        n = sum(map(len, self.turns))
        if len(messages) != n:
            raise Wrong(f"The context has {len(messages)} messages, acknowledged were {n}")
        found = iter(messages)
        at = 0
        for turn in self.turns:
            for i, (role, text) in enumerate(turn):
                found_role, found_text = next(found)[:2]
                at += 1
                if found_role != role or text not in (UNSEEN, found_text):
                    raise Wrong(f"Message {at} of {n} is not the one that was acknowledged")
                turn[i] = (role, found_text)
