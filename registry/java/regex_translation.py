r"""Translate Java's regular expressions (`java.util.regex.Pattern`, Java 17) to Python.

A pattern is parsed by Java's grammar and translated piece by piece, because Java and Python differ in details:

| in Java | translated to |
| --- | --- |
| `\d \w \s` | classes of ASCII, unless `(?U)` |
| `.`, `^`, `$`, `\Z` | expressions with the line ends `\r\n`, `\u0085`, `\u2028` and `\u2029` |
| `[a-z&&[^aeiou]]`, `[a[bc]]` | intersection as a lookahead, union as an alternative |
| `(?i)` | both cases of ASCII letters in a class; with `(?u)` a flag of each piece after it, until its group ends |
| `\Q...\E`, `\h`, `\R`, `\p{Lu}`, `\x{1F600}`, `a{2}{3}` | equivalent expressions |

A text that is not a pattern in Java raises `RegexError`. So do patterns that Python does not support: lookbehind of
variable length, names of scripts and blocks, grapheme clusters (`\X`), a reference to a group in `(?i)` without `(?u)`,
and more than five nested repeats.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass, replace

from kvformat.registry.java import regex_classes as classes

_MOST_NESTED = 5
"""The most nested repeats; `(a+)+` has two. `regex` doubles its memory for each, to 2 GB for 20."""
TRAITS = {
    "LOOKS_BEHIND": "the pattern has a lookbehind or `\\B`",
    "CONTINUES": "the pattern has `\\G`, which matches at the end of the previous match",
    "WORD_EDGES": "the pattern has `\\b` or `\\B`, and not all marks and signs belong to words in Java",
    "KEEPS_GROUPS": "Java may have other groups: in a lookaround, in an atomic part, or repeated and empty",
}
"""Traits of patterns whose searches or groups are not supported."""
_ASSERTION = re.compile(r"\(\?<?[=!]|\\[AbBZ]")
_MOST_REPEATS, _MOST_BRANCHES = 2, 8
"""The most quantifiers that are not nested, or the most alternatives, of a pattern that cannot be slow."""


class RegexError(ValueError):
    """A text is not a supported pattern. `str()` has the reason and the position."""


class UnsupportedRegexError(RegexError):
    """A text may be a pattern in Java, but it is not supported here."""


@dataclass(frozen=True, slots=True)
class _Flags:
    """The flags in force: (?i), (?m), (?s), (?x), (?d), (?u), (?U)."""

    i: bool = False
    m: bool = False
    s: bool = False
    x: bool = False
    d: bool = False
    u: bool = False
    U: bool = False


def without_quotes(text: str) -> str:
    r"""Escape the text between `\Q` and `\E` in a pattern."""
    parts, at = [], 0
    while at < len(text):
        if text.startswith("\\Q", at):
            end = text.find("\\E", at + 2)
            quoted = text[at + 2 : end if end >= 0 else len(text)]
            parts.append("".join(c if c.isascii() and c.isalnum() else f"\\{c}" for c in quoted))
            at = len(text) if end < 0 else end + 2
        else:
            step = 2 if text[at] == "\\" else 1
            parts.append(text[at : at + step])
            at += step
    return "".join(parts)


def _may_be_empty(translated: str) -> bool:
    """Return whether a part of a pattern may match without characters; True if that is not known."""
    try:
        return bool(_ASSERTION.search(translated) or re.fullmatch(translated, ""))
    except re.error:
        return True


class Translator:
    """Translates a pattern in one pass. `_at` is the offset of the next character."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._flags = _Flags()
        self._groups, self._names = 0, set[str]()
        self._nested = 0  # the number of nested repeats in the current piece
        self._repeats = self._branches = self._deepest = 0
        self.traits = set[str]()

    def whole(self) -> str:
        """Translate the whole pattern."""
        translated = self._alternatives()
        if self._at < len(self._text):
            raise self._error("unmatched closing ')'")
        return translated

    def is_quick(self) -> bool:
        """Return whether a match in a text of n characters takes at most about n^3 steps."""
        if "WORD_EDGES" in self.traits:
            return False  # in `re`, the empty text has no `\B`
        if self._branches:
            return not self._repeats and self._branches <= _MOST_BRANCHES
        return self._repeats <= _MOST_REPEATS and self._deepest <= 1

    # --- reading ---------------------------------------------------------------------------------------

    def _error(self, reason: str) -> RegexError:
        if self._flags.x:  # Java skips blanks within more of its signs than this parser
            return self._unsupported(f"with (?x), this is not supported: {reason}")
        return RegexError(f"{reason} at character {self._at + 1}")

    def _note(self, trait: str, present: bool) -> None:
        if present:
            self.traits.add(trait)

    def _unsupported(self, reason: str) -> UnsupportedRegexError:
        return UnsupportedRegexError(f"{reason} at character {self._at + 1}")

    def _peek(self) -> str:
        """Return the next character, empty at the end. With (?x), comments and blanks are skipped."""
        while self._flags.x and self._at < len(self._text):
            character = self._text[self._at]
            if character == "#":
                while self._at < len(self._text) and self._text[self._at] not in "\n\r\x85\u2028\u2029":
                    self._at += 1
            elif character in " \t\n\x0b\f\r":
                self._at += 1
            else:
                break
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        character = self._text[self._at : self._at + 1]
        self._at += 1
        return character

    def _take(self, expected: str) -> bool:
        if self._text.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    def _match(self, expression: str) -> re.Match[str] | None:
        match = re.compile(expression).match(self._text, self._at)
        if match:
            self._at = match.end()
        return match

    # --- structure -------------------------------------------------------------------------------------

    def _alternatives(self) -> str:
        """Translate alternatives, up to a closing parenthesis or the end. Flags set inside end there."""
        outer = self._flags
        branches = [self._branch()]
        while self._peek() == "|":
            self._at += 1
            self._branches += 1
            branches.append(self._branch())
        self._flags = outer
        return "|".join(branches)

    def _branch(self) -> str:
        pieces = []
        while self._peek() not in ("", "|", ")"):
            beside, self._nested = self._nested, 0
            before = self._groups
            atom, repeats = self._atom()
            pieces.append(self._repeated(atom) if repeats else atom)
            if self._groups > before and pieces[-1] != atom:
                possessive = pieces[-1].endswith("+") and pieces[-1][-2] in "*+?}"
                self._note("KEEPS_GROUPS", possessive or _may_be_empty(atom))
            self._nested = max(beside, self._nested)
        return "".join(pieces)

    def _repeated(self, atom: str) -> str:
        """Translate the quantifier of an atom, if it has one."""
        sign = self._peek()
        if sign not in ("*", "+", "?", "{") or not sign:
            return atom
        if sign == "{":
            match = self._match(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
            if not match:
                raise self._error("illegal repetition")
            least, most = int(match[1]), int(match[3] or match[1]) if match[3] or not match[2] else None
            if least >= 2**31 or (most is not None and not least <= most < 2**31):
                raise self._error("illegal repetition range")
            quantifier = match[0]
        else:
            quantifier = self._next()
        self._nested += 1
        self._repeats += 1
        self._deepest = max(self._deepest, self._nested)
        if self._nested > _MOST_NESTED:
            raise self._unsupported(f"more than {_MOST_NESTED} nested repeats are not supported")
        after = self._peek()
        if after in ("?", "+") and after:
            quantifier += self._next()
        return f"(?:{atom}){quantifier}"

    def _atom(self) -> tuple[str, bool]:
        """Translate the next piece. Returns it, and whether a quantifier may follow it."""
        character = self._peek()
        if character in ("*", "+", "?"):
            raise self._error(f"dangling meta character '{character}'")
        if character == "{":
            return "", True  # in Java, `{2}` without an atom before it repeats the empty string
        if character == "(":
            return self._group()
        if character == "[":
            self._at += 1
            return self._class(), True
        if character == "\\":
            self._at += 1
            return self._escape(), True
        self._at += 1
        if character == ".":
            return self._dot(), True
        if character in ("^", "$"):
            return self._anchor(character), True
        return self._literal(character), True

    def _dot(self) -> str:
        if self._flags.s:
            return r"[\s\S]"
        return r"[^\n]" if self._flags.d else f"[^{classes.LINE_ENDS[1:]}"

    def _anchor(self, character: str) -> str:
        ends = r"[\n]" if self._flags.d else classes.LINE_ENDS
        between = "" if self._flags.d else r"(?!(?<=\r)\n)"
        if character == "^":
            return rf"(?:\A|(?<={ends}){between}(?!\Z))" if self._flags.m else r"\A"
        if self._flags.m:
            return rf"(?:(?={ends}){between}|\Z)"
        last = r"\n" if self._flags.d else rf"(?:\r\n|{ends})"
        return rf"(?:(?={last}?\Z){between})"

    def _literal(self, character: str) -> str:
        return self._in_any_case(re.escape(character), ord(character), ord(character))

    def _in_any_case(self, written: str, first: int, last: int) -> str:
        """Translate a character or a range of characters, which ignores case if (?i) is set."""
        if not self._flags.i or (first == last and chr(first).lower() == chr(first).upper()):
            return written
        if self._flags.u or self._flags.U:
            return f"(?i:{written})"
        others = ""
        for a, z in ("AZ", "az"):
            least, most = max(first, ord(a)), min(last, ord(z))
            if least <= most:
                others += f"{chr(least).swapcase()}-{chr(most).swapcase()}"
        return f"[{classes.escaped(first)}-{classes.escaped(last)}{others}]" if others else written

    # --- groups ----------------------------------------------------------------------------------------

    def _group(self) -> tuple[str, bool]:
        self._at += 1
        if not self._take("?"):
            self._groups += 1
            closed = self._closed("(")
            self._note("KEEPS_GROUPS", closed == "()")
            return closed, True
        for opening in (":", "=", "!", ">", "<=", "<!"):
            if self._take(opening):
                before = self._groups
                closed = self._closed(f"(?{opening}")
                if opening != ":":
                    self._note("KEEPS_GROUPS", self._groups > before)
                self._note("LOOKS_BEHIND", opening in ("<=", "<!"))
                return closed, True
        if self._take("<"):
            match = self._match(r"([A-Za-z][A-Za-z0-9]*)>")
            if not match:
                raise self._error("the name of a group must be letters and digits between '<' and '>'")
            if match[1] in self._names:
                raise self._error(f"the group <{match[1]}> is defined twice")
            self._groups += 1
            self._names.add(match[1])
            closed = self._closed(f"(?P<{match[1]}>")
            self._note("KEEPS_GROUPS", closed.endswith(">)"))
            return closed, True
        match = self._match(r"([idmsuxU]*)(?:-([idmsuxU]*))?([:)])")
        if not match:
            raise self._error("unknown inline modifier or group")
        outer = self._flags
        changed = dict.fromkeys(match[1], True) | dict.fromkeys(match[2] or "", False)
        self._flags = replace(outer, **changed)
        if match[3] == ")":
            return "", False
        inner = self._closed("(?:")
        self._flags = outer
        return inner, True

    def _closed(self, opening: str) -> str:
        inner = self._alternatives()
        if self._peek() != ")":
            raise self._error("unclosed group")
        self._at += 1
        return f"{opening}{inner})"

    # --- escapes ---------------------------------------------------------------------------------------

    def _escape(self) -> str:
        """Translate an escape sequence outside of a class, after its backslash."""
        character = self._text[self._at : self._at + 1]
        if character in "bBAGzZRXk123456789" and character:
            self._at += 1
            return self._special(character)
        predefined = self._predefined()
        if predefined is not None:
            return predefined
        return self._literal(self._escaped_character())

    def _special(self, character: str) -> str:
        if character == "X" or (character == "b" and self._take("{g}")):
            raise self._unsupported("grapheme clusters are not supported")
        if character in "bB":
            self._note("LOOKS_BEHIND", character == "B")
            self._note("WORD_EDGES", True)
            return rf"\{character}"  # in Java 17, `\b` uses Unicode's letters
        if character in "AG":
            self._note("CONTINUES", character == "G")
            return r"\A"
        if character == "z":
            return r"\Z"
        if character == "Z":
            outer, self._flags = self._flags, replace(self._flags, m=False)
            anchor = self._anchor("$")
            self._flags = outer
            return anchor
        if character == "R":
            return rf"(?:\r\n|{classes.VERTICAL})"
        if character == "k":
            match = self._match(r"<([A-Za-z][A-Za-z0-9]*)>")
            if not match or match[1] not in self._names:
                raise self._error("\\k needs the name of a group before it")
            return self._reference(f"(?P={match[1]})")
        return self._back_reference(character)

    def _back_reference(self, digits: str) -> str:
        while (
            (more := self._text[self._at : self._at + 1])
            and more in "0123456789"
            and int(digits + more) <= self._groups
        ):
            digits += self._next()
        if int(digits) > self._groups:
            return r"(?!)"  # in Java, a missing group matches nothing
        return self._reference(rf"(?:\{digits})")

    def _reference(self, written: str) -> str:
        if self._flags.i and not (self._flags.u or self._flags.U):
            raise self._unsupported("a reference to a group in (?i) without (?u) is not supported")
        return f"(?i:{written})" if self._flags.i else written

    def _predefined(self) -> str | None:
        r"""Translate `\d`, `\p{...}` and similar, inside and outside of a class. Returns None for anything else."""
        character = self._text[self._at : self._at + 1]
        if not character or character not in "dDwWsShHvVpPN":
            return None
        self._at += 1
        if character in "dDwWsS":
            if self._flags.U:
                return f"\\{character}"
            positive = classes.ASCII[character.lower()]
            return f"[^{positive[1:]}" if character in "DWS" else positive
        if character in "hHvV":
            positive = classes.HORIZONTAL if character in "hH" else classes.VERTICAL
            return f"[^{positive[1:]}" if character in "HV" else positive
        if character == "N":
            return self._named_character()
        match = self._match(r"\{([^}]*)\}|(.)")
        if not match:
            raise self._error("unclosed character family")
        positive = self._family(match[1] if match[1] is not None else match[2])
        return rf"(?:(?!{positive})[\s\S])" if character == "P" else positive

    def _named_character(self) -> str:
        match = self._match(r"\{([^}]*)\}")
        try:
            return self._literal(unicodedata.lookup(match[1] if match else ""))
        except KeyError:
            raise self._error("unknown name of a character") from None

    def _family(self, name: str) -> str:
        if name in classes.POSIX:
            if self._flags.U:
                raise self._unsupported(f"\\p{{{name}}} with (?U) is not supported")
            positive = classes.POSIX[name]
            if name in ("Lower", "Upper"):
                return self._in_any_case(positive, ord(positive[1]), ord(positive[3]))
            return positive
        key, equals, value = name.partition("=")
        if equals:
            if key.lower() not in ("gc", "general_category"):
                raise self._unsupported(f"unknown or unsupported character property {name!r}")
            name = value
        elif name.startswith("Is") and name[2:].upper() in (*classes.BINARY, *classes.DERIVED):
            return self._binary(name[2:].upper())
        elif name.startswith("Is"):
            name = name[2:]
        if name in classes.CATEGORIES or (len(name) == 1 and name in "LMNZCPS"):
            return self._categories(name)
        if name == "LC":
            return classes.category(*classes.CASED)
        raise self._unsupported(f"unknown or unsupported character property {name!r}")

    def _binary(self, name: str) -> str:
        if self._flags.i and name in ("LOWERCASE", "UPPERCASE"):
            return f"(?:{classes.derived('Lowercase')}|{classes.derived('Uppercase')}|{classes.category('Lt')})"
        return (
            classes.derived(classes.DERIVED[name])
            if name in classes.DERIVED
            else self._categories(*classes.BINARY[name])
        )

    def _categories(self, *names: str) -> str:
        """Return the class of some categories. With (?i), an uppercase letter is any letter that has a case."""
        return classes.category(*(classes.CASED if self._flags.i and names[0] in classes.CASED else names))

    def _escaped_character(self) -> str:
        """Return the character of an escape sequence."""
        character = self._next()
        if not character:
            raise self._error("unexpected end of the pattern")
        if character in classes.CONTROLS:
            return classes.CONTROLS[character]
        if character == "0":
            match = self._match("[0-3][0-7]{2}|[0-7]{1,2}")
            if not match:
                raise self._error("illegal octal escape sequence")
            return chr(int(match[0], 8))
        if character in "xu":
            return self._hexadecimal(character)
        if character == "c":
            controlled = self._next()
            if not controlled:
                raise self._error("illegal control escape sequence")
            return chr(ord(controlled) ^ 64)
        if character.isascii() and character.isalnum():
            raise self._error(f"illegal or unsupported escape sequence '\\{character}'")
        return character

    def _hexadecimal(self, character: str) -> str:
        match = self._match(r"[0-9A-Fa-f]{4}" if character == "u" else r"[0-9A-Fa-f]{2}|\{([0-9A-Fa-f]+)\}")
        code = int(match[1] if match.re.groups and match[1] else match[0], 16) if match else sys.maxunicode + 1
        if code > sys.maxunicode:
            raise self._error("illegal hexadecimal escape sequence")
        low = re.compile(r"\\u(D[C-F][0-9A-F]{2})", re.IGNORECASE).match(self._text, self._at)
        if character == "u" and 0xD800 <= code < 0xDC00 and low:
            self._at = low.end()
            return chr(0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00)
        return chr(code)

    # --- classes ---------------------------------------------------------------------------------------

    def _class(self) -> str:
        """Translate a class, after its opening bracket, to an expression for one character."""
        negated = self._take("^")
        intersection: list[str] = []
        union: list[str] = []
        empty = True  # a closing bracket at the start is a member
        while True:
            character = self._peek()
            if not character:
                raise self._error("unclosed character class")
            if character == "]" and not empty:
                self._at += 1
                break
            if self._take("&&"):
                if self._peek() == "&":
                    raise self._unsupported("'&&&' in a character class is not supported")
                if union:
                    intersection.append("|".join(union))
                union = []
                continue
            empty = False
            if character == "[":
                self._at += 1
                union.append(self._class())
            else:
                union.append(self._range())
        if union:
            intersection.append("|".join(union))
        if not intersection:
            raise self._error("bad class syntax")
        last = intersection.pop()
        inside = "".join(f"(?={part})" for part in intersection) + f"(?:{last})"
        return rf"(?:(?!{inside})[\s\S])" if negated else f"(?:{inside})"

    def _range(self) -> str:
        """Translate a member of a class: a character, a range, or a predefined class."""
        if self._peek() == "\\":
            self._at += 1
            predefined = self._predefined()
            if predefined is not None:
                return predefined
            first = self._escaped_character()
        else:
            first = self._next()
        after = self._text[self._at + 1 : self._at + 2]
        if self._peek() != "-" or after in ("]", "[", ""):
            return self._literal(first)
        self._at += 1
        if self._peek() == "\\":
            self._at += 1
            last = self._escaped_character()
        else:
            last = self._next()
        if ord(last) < ord(first):
            raise self._error("illegal character range")
        return self._in_any_case(f"[{classes.escaped(ord(first))}-{classes.escaped(ord(last))}]", ord(first), ord(last))
