"""The rules of the contract, in one table: tests, errors and the docs are made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

if TYPE_CHECKING:
    from kvformat.registry.testing.subject import Subject

Part = Literal["decode", "encode", "object", "spark"]


@dataclass(frozen=True)
class Rule:
    """A rule of the contract.

    name: how tests, errors and the docs call it.
    part: what it is about: 'decode', 'encode', the format as an 'object', or its Columns in 'spark'.
    sentence: the rule itself.
    page: the page and section of the docs that explain it.
    check: raises `Breach` where it does not hold, `LeftOut` where it does not apply.
    """

    name: str
    part: Part
    sentence: str
    page: str
    check: Callable[..., None]


class Breach(Exception):
    """A rule does not hold; the text says for which case, what came and what was expected."""


class LeftOut(Exception):
    """A rule does not apply to a format; the text says why."""


_PAGE: Final = "plugins.md#the-rules"
RULES: dict[str, Rule] = {}
"""All rules by name."""

_Check = TypeVar("_Check", bound=Callable[..., None])


def rule(part: Part, *, page: str = _PAGE) -> Callable[[_Check], _Check]:
    """Make a rule of a function that looks at a `Subject`: its name is the rule's, its docstring the sentence."""

    def add(check: _Check) -> _Check:
        name, sentence = check.__name__, " ".join((check.__doc__ or "").split())
        assert name not in RULES, f"rule {name} is there already"
        RULES[name] = Rule(name, part, sentence, f"docs/{page}", check)
        return check

    return add


@dataclass(frozen=True)
class Outcome:
    """What came of a rule: how much was compared, why it was left out, or the sentence of how it is broken."""

    rule: Rule
    compared: int = 0
    left_out: str | None = None
    broken: str | None = None


def outcome(rule: Rule, subject: Subject, *further: Any) -> Outcome:
    """Check one rule; `further` is what rules of Spark need beside the subject."""
    from kvformat.registry.contract.errors import ContractError

    before = subject.compared
    try:
        rule.check(subject, *further)
    except LeftOut as reason:
        return Outcome(rule, left_out=str(reason))
    except Breach as breach:
        return Outcome(rule, broken=_sentence(rule, subject, str(breach)))
    except ContractError as error:
        shapes = RULES["encoded_shapes" if "encode_arrow" in str(error) else "shapes"]
        return Outcome(rule, broken=_sentence(shapes, subject, error.reason or str(error)))
    except Exception as error:
        text = f"{subject.doing}: {type(error).__name__} was raised, and nothing was expected to be: {error}"
        return Outcome(rule, broken=_sentence(rule, subject, text))
    if subject.compared == before:
        return Outcome(rule, broken=_sentence(rule, subject, "nothing was compared: there are no samples for it"))
    return Outcome(rule, subject.compared - before)


def _sentence(rule: Rule, subject: Subject, text: str) -> str:
    return (
        f"format '{subject.identifier}' breaks the rule {rule.name}: {rule.sentence} {text}. "
        f"The rule is explained in {rule.page}"
    )
