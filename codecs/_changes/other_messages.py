"""Messages on a topic of changes that are no change of a row: statements, heartbeats, transactions, watermarks.

    {"op": "t", "before": null, "after": null}     {"ts_ms": 1718000000000}     {"type": "ALTER", "isDdl": true, ...}

Flink takes them for errors, and so does every format by default. A message after which the table has lost its rows is
set apart: passing over it is another thing than passing over a heartbeat.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvformat.registry.contract.options import Option

ERROR, _SKIP, _SKIP_ALL = "error", "skip", "skip-all"
OTHER_MESSAGES = Option(
    name="other-messages",
    type="enum",
    default=ERROR,
    allowed=(ERROR, _SKIP, _SKIP_ALL),
    doc="Ours. What becomes of messages that are no change of a row: an error, or nothing. With `skip` those after "
    "which the table has lost its rows (TRUNCATE, DROP) stay an error; with `skip-all` they are passed over, too, and "
    "a table made of the changes keeps its rows. For reading only.",
)


@dataclass(frozen=True, slots=True)
class OtherMessage:
    """What a message is (`a heartbeat`), and whether the table has no rows after it.

    Without an operation it is known by its members: it has those in `needs`, the most unusual one first, and if there
    are `only`, no others; if there are `words`, the first of them is a text that matches.
    """

    description: str
    empties_table: bool = False
    required: tuple[str, ...] = ()
    allowed: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None

    def matches(self, members: Mapping[str, Any]) -> bool:
        """Whether a message of these members is such a one."""
        if any(name not in members for name in self.required) or (self.allowed and not self.allowed >= members.keys()):
            return False
        if self.pattern is None:
            return True
        text = members[self.required[0]]
        return isinstance(text, str) and self.pattern.match(text) is not None

    def is_skipped(self, setting: str) -> bool:
        """Whether the message is passed over, by the option `other-messages`."""
        return setting == _SKIP_ALL or (setting == _SKIP and not self.empties_table)

    def hint(self) -> str:
        """What the message is and what to do about it, for the end of an error."""
        if self.empties_table:
            return (
                f". The message is {self.description}: the table has lost its rows, which no kind of row says. Load it "
                "anew, or set 'other-messages' to 'skip-all' to go on with the rows that it had"
            )
        return (
            f". The message is {self.description}, no change of a row: set 'other-messages' to 'skip' to pass over it"
        )


def find_by_members(others: tuple[OtherMessage, ...], members: Mapping[str, Any]) -> OtherMessage | None:
    """What a message of these members, without an operation, is."""
    return next((other for other in others if other.matches(members)), None)
