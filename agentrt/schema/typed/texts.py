"""The texts that Pydantic's own kinds of string are read from, as patterns (ECMA-262).

Where a validator takes more than a pattern can tell, the texts are those that every reader takes;
the comments say what is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import ByteSize

from agentrt.schema.load.formats import IPV4, IPV6, OCTET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Pattern = dict[str, Any]

CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
FRACTION = r"(\.[0-9]{1,6})?"
MICROSECONDS = rf"[^.]*{FRACTION}[^.]*"
# a plain ISO 8601 duration that fits a timedelta, as Pydantic reads it
TIMEDELTA = r"^P([0-9]{1,6}D)?(T[0-9]{1,5}S)?$"
COMPLEX = r"^-?[0-9]{1,9}(\.[0-9]{1,9})?[+-][0-9]{1,9}(\.[0-9]{1,9})?j$"
# no white space at either end, which a string that is stripped would lose
STRIPPED = r"^(\P{White_Space}([\s\S]*\P{White_Space})?)?$"

_HEX = "[0-9a-f]"
_GROUP = "[0-9A-Fa-f]{1,4}:"
_SIZE4, _SIZE6 = "/([0-9]|[12][0-9]|3[0-2])", "/([0-9]|[1-9][0-9]|1[01][0-9]|12[0-8])"

# A name at a domain name with a top level of letters (email-validator takes no others; names in
# quotes, addresses in brackets and what is not ASCII are left out). At most 64 characters before
# the @; domains for special use are refused by it.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_SPECIAL = "(?!(?:arpa|invalid|local|localhost|onion|test)(?![a-z]))"
_EMAIL = (
    rf"{_ATOM}{{1,31}}(\.{_ATOM}{{1,31}})?@([a-z0-9]{{1,20}}(-[a-z0-9]{{1,20}})?\.){{1,3}}"
    rf"{_SPECIAL}[a-z]{{2,18}}"
)


def _networks4() -> str:
    """IPv4 networks (RFC 4632): past the prefix, every bit is zero."""
    ways = [IPV4]
    for size in range(33):
        whole, bits = divmod(size, 8)
        octets = [f"(?:{OCTET})"] * whole
        if bits:
            octets.append(f"(?:{'|'.join(str(n) for n in range(0, 256, 1 << 8 - bits))})")
        octets += ["0"] * (4 - len(octets))
        ways.append(r"\.".join(octets) + f"/{size}")
    return "|".join(ways)


def _networks6() -> str:
    """IPv6 networks whose prefix is of whole groups (RFC 4291, section 2.3), or of one address."""
    ways = [f"(?:{_GROUP}){{{n}}}:/{16 * n}" for n in range(1, 8)]
    return "|".join([rf"(?:{IPV6})(?:/128)?", "::/0", *ways])


def base64_pattern(
    *, url: bool, ascii_only: bool = False, lo: int = 0, hi: int | None = None
) -> str:
    """Base64 (RFC 4648) of `lo` to `hi` bytes, padded; or of ASCII text, whose bytes have a first
    bit of 0."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    letters += "-_" if url else "+/"

    def of(holds: Callable[[int], bool]) -> str:
        return "[" + "".join(re.escape(c) for v, c in enumerate(letters) if holds(v)) + "]"

    clear = (32, 8, 2, 0) if ascii_only else (0, 0, 0, 0)
    first, second, third, fourth = (of(lambda v, bit=bit: not v & bit) for bit in clear)
    ends = ("", first + of(lambda v: not v & 15) + "==",
            first + second + of(lambda v: not v & 3) + "=")  # fmt: skip
    ways: list[str] = []
    for rest, end in enumerate(ends):
        least = max(0, -(-(lo - rest) // 3))
        most = "" if hi is None else (hi - rest) // 3
        if most == "" or least <= most:
            ways.append(f"(?:{first}{second}{third}{fourth}){{{least},{most}}}{end}")
    return f"^(?:{'|'.join(ways)})$" if ways else "[]"


def hex_pattern(lo: int = 0, hi: int | None = None) -> str:
    """Hexadecimal digits of `lo` to `hi` bytes."""
    return f"^(?:[0-9a-f]{{2}}){{{lo},{'' if hi is None else hi}}}$"


def byte_size_pattern() -> str:
    """A number and a unit of Pydantic's ByteSize, in any case."""
    units = sorted(ByteSize.byte_sizes, key=lambda unit: (-len(unit), unit))
    cased = ("".join(f"[{c}{c.upper()}]" for c in unit) for unit in units)
    return rf"^[0-9]{{1,12}}(\.[0-9]{{1,6}})? ?({'|'.join(cased)})?$"


def url_pattern(schemes: Iterable[str]) -> str:
    """URLs that every reader takes: a scheme that may be, a host name, a path of plain text; of
    files, an absolute path."""
    label = "[a-z0-9]{1,20}(-[a-z0-9]{1,20})?"
    host = rf"{label}(\.{label}){{0,2}}\.[a-z]{{2,10}}(:[1-9][0-9]{{0,3}})?"
    rest = r"(/[A-Za-z0-9._~-]*)*(\?[A-Za-z0-9=&._~-]*)?"
    others = [re.escape(scheme) for scheme in schemes if scheme != "file"]
    ways = [f"({'|'.join(others)})://{host}{rest}"] if others else []
    if "file" in schemes:
        ways.append("file:///[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*")
    return f"^({'|'.join(ways)})$"


_IP4, _IP6 = {"format": "ipv4"}, {"format": "ipv6"}
_NETWORK4, _NETWORK6 = {"pattern": f"^({_networks4()})$"}, {"pattern": f"^({_networks6()})$"}
_INTERFACE4 = {"pattern": f"^({IPV4})({_SIZE4})?$"}
_INTERFACE6 = {"pattern": f"^({IPV6})({_SIZE6})?$"}

LANGUAGES: dict[str, Pattern] = {
    "ipvanyaddress": {"anyOf": [_IP4, _IP6]},
    "ipvanyinterface": {"anyOf": [_INTERFACE4, _INTERFACE6]},
    "ipvanynetwork": {"anyOf": [_NETWORK4, _NETWORK6]},
    "ipv4network": _NETWORK4,
    "ipv6network": _NETWORK6,
    "ipv4interface": _INTERFACE4,
    "ipv6interface": _INTERFACE6,
    "base64": {"pattern": base64_pattern(url=False, ascii_only=True)},
    "base64url": {"pattern": base64_pattern(url=True, ascii_only=True)},
    "fraction": {"pattern": r"^-?(0|[1-9][0-9]{0,14})(/[1-9][0-9]{0,14})?$"},
    "email": {"pattern": f"^{_EMAIL}$"},
    "name-email": {
        "pattern": f"^([A-Za-z]{{1,20}}( [A-Za-z]{{1,20}}){{0,3}} <{_EMAIL}>|{_EMAIL})$"
    },
    **{
        f"uuid{n}": {
            "pattern": f"^{_HEX}{{8}}-{_HEX}{{4}}-{n}{_HEX}{{3}}-[89ab]{_HEX}{{3}}-{_HEX}{{12}}$"
        }
        for n in range(1, 9)
    },
}
"""What a format that is Pydantic's own asks of a string."""

BINARY: dict[str, Pattern] = {
    "base64": {"pattern": base64_pattern(url=False)},
    "base64url": {"pattern": base64_pattern(url=True)},
}
"""Of those that a bytes type reads."""

_TOKEN = re.compile(r"\\.|\[\^?\]?|\]|.", re.DOTALL)
_OUTSIDE = {r"\D": r"\P{Nd}", r"\W": r"\P{Word}", r"\S": r"\P{White_Space}"}
_NEGATED = {r"\d": r"\p{Nd}", r"\w": r"\p{Word}", r"\s": r"\p{White_Space}"}


def ecma_pattern(pattern: str) -> str:
    """A pattern of Rust's or Python's regex engine, as far as its classes mean more characters
    there than here: what is in none of them there must not be allowed.

    `\\d` stays ASCII: fewer texts, all of which match.
    """
    out: list[str] = []
    inside = negated = False
    for token in _TOKEN.findall(pattern):
        if token.startswith("[") and not inside:
            inside, negated = True, token.startswith("[^")
            # a bracket that stands first closes nothing there
            token = token.replace("]", r"\]")
        elif token == "]" and inside:
            inside = negated = False
        elif inside and negated:
            token = _NEGATED.get(token, token)
        elif token != r"\s":
            token = _OUTSIDE.get(token, token)
        else:
            token = r"\p{White_Space}"
        out.append(token)
    return "".join(out)
