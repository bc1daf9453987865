"""Messages on a topic of changes that do not change a row: statements, heartbeats, transactions, watermarks.

    {"op": "t", "before": null, "after": null}     {"ts_ms": 1718000000000}     {"type": "ALTER", "isDdl": true, ...}

Flink fails at such a message, and so does every format by default. Some of these messages say that the table has lost
its rows (TRUNCATE, DROP). They need an option value of their own: without them, a table keeps the lost rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvformat.registry.contract.options import Option

ERROR, SKIP, SKIP_ALL = "error", "skip", "skip-all"
OTHER_MESSAGES = Option(
    name="other-messages",
    type="enum",
    default=ERROR,
    allowed=(ERROR, SKIP, SKIP_ALL),
    doc="Ours. Messages that do not change a row are errors, or are skipped. With `skip`, messages "
    "after which the table has lost its rows (TRUNCATE, DROP) stay an error. With `skip-all` they are skipped too, and "
    "a table made of the changes keeps its rows. For reading only.",
)


@dataclass(frozen=True, slots=True)
class OtherMessage:
    """A kind of message that does not change a row.

    `description` names it in errors ("a heartbeat"). `empties_table` says that the table has no rows after it.

    A message without an operation is recognized by its members. It must have all members in `required`; the least
    common member comes first there. If `allowed` is not empty, the message must not have other members. If there is a
    `pattern`, the first required member must be a text that matches it. Its group `drop` tells that the table is gone.
    """

    description: str
    empties_table: bool = False
    required: tuple[str, ...] = ()
    allowed: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None

    def matches(self, members: Mapping[str, Any]) -> bool:
        """Whether a message with these members is of this kind."""
        if any(name not in members for name in self.required) or (self.allowed and not self.allowed >= members.keys()):
            return False
        if self.pattern is None:
            return True
        text = members[self.required[0]]
        return isinstance(text, str) and self.pattern.match(text) is not None

    def drops(self, members: Mapping[str, Any]) -> bool:
        """Whether the table is gone after a message with these members, which is of this kind by its pattern."""
        match = None if self.pattern is None else self.pattern.match(members[self.required[0]])
        return match is not None and match["drop"] is not None

    def is_skipped(self, setting: str) -> bool:
        """Whether the message is skipped, given the value of the option `other-messages`."""
        return setting == SKIP_ALL or (setting == SKIP and not self.empties_table)

    def hint(self) -> str:
        """The end of an error: what the message is, and what to do about it."""
        if self.empties_table:
            return (
                f". The message is {self.description}: the table has lost its rows, but no row kind says so. Load the "
                "table again, or set 'other-messages' to 'skip-all' to keep the rows it had"
            )
        return (
            f". The message is {self.description}, which does not change a row: set 'other-messages' to 'skip' to "
            "skip such messages"
        )


def find_by_members(kinds: tuple[OtherMessage, ...], members: Mapping[str, Any]) -> OtherMessage | None:
    """Return the first kind that a message without an operation matches by its members, or None."""
    return next((kind for kind in kinds if kind.matches(members)), None)
