"""Generated records that resemble those of real topics: nested, of changing shape, with many unused members.

    kind          bytes            content
    posts         2,000 to 5,000   a social network: user, entities, a reposted post; texts in many languages
    events        1,000 to 3,000   the feed of a code host: the members of the payload depend on the type
    catalog         500 to 3,000   a package index: maps with different keys, HTML in texts
    performances  2,000            a box office: arrays of small objects, mostly numbers
    users           100 to   500   a sign-up form

All values are generated from a seed, so the messages are the same in every run.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SEED = 20240229
Object = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """Messages of one shape, and the schema and options of a table that reads some of their members."""

    name: str
    schema: str
    pool: tuple[bytes, ...]
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> float:
        """The mean size of a message in bytes."""
        return sum(map(len, self.pool)) / len(self.pool)

    def draw(self, megabytes: float) -> list[bytes]:
        """Draw messages at random up to a total size. Every call returns the same messages."""
        rng = random.Random(SEED)
        drawn: list[bytes] = []
        left = int(megabytes * 1e6)
        while left > 0:
            drawn.append(rng.choice(self.pool))
            left -= len(drawn[-1])
        return drawn


def record_kinds(count: int = 4_000) -> tuple[Kind, ...]:
    """Return all kinds, the smallest with `count` different messages, the others with a half or a quarter of it."""
    return (
        _kind("posts", count // 4, _post, _POSTS),
        _kind("events", count // 4, _event, _EVENTS, {"timestamp-format.standard": "ISO-8601"}),
        _kind("catalog", count // 2, _project, _CATALOG),
        _kind("performances", count // 4, _performance, _PERFORMANCES),
        _kind("users", count, _user, _USERS),
    )


def _kind(
    name: str, count: int, make: Callable[[_Maker], bytes], schema: str, options: Mapping[str, str] | None = None
) -> Kind:
    maker = _Maker(f"{name} {SEED}")
    return Kind(name, schema, tuple(make(maker) for _ in range(count)), options or {})


# --- words -----------------------------------------------------------------------------------------------

_WORDS = {
    "en": "the a morning train late coffee again who knew rain over our roofs and still nobody asks why it works",
    "de": "heute über die Brücke für später größer schöne Grüße aus dem Süden während nächste Straße läuft",
    "fr": "déjà vu à côté d'une fenêtre où l'été s'achève très tôt ça va peut-être où être forêt",
    "es": "mañana el niño según corazón qué día más rápido aquí está señal también años después",
    "pl": "żółta łódź płynie świeżo ćma gęś późną nocą jeszcze więcej słońca nad rzeką",
    "ru": "утром поезд снова опоздал кофе остыл дождь над крышами никто не спрашивает почему",
    "ar": "صباح القطار تأخر مرة أخرى القهوة باردة المطر فوق السطوح لا أحد يسأل",
    "hi": "सुबह की ट्रेन फिर देर से आई चाय ठंडी हो गई बारिश छतों पर कोई नहीं पूछता",
    "ja": "朝の 電車 が また 遅れた コーヒー は 冷めた 屋根 に 雨 誰も 聞かない",
    "zh": "早上 火车 又 晚点 咖啡 凉了 雨 落在 屋顶 没人 问 为什么",
    "ko": "아침 기차가 또 늦었다 커피는 식었고 지붕 위에 비 아무도 묻지 않는다",
}
_SHARES = {"en": 38, "ja": 16, "es": 12, "ar": 7, "ko": 6, "fr": 5, "ru": 5, "hi": 4, "zh": 3, "de": 3, "pl": 1}
_BETWEEN = (" 😀", " 🔥✨", "\n", "!!", " 👩‍💻", " &amp;", "…", "\t", " ❤️", " 🇧🇷")
_SYLLABLES = "ka lo mi ren ta vo zu bel dor fin gra hul ist jor kem nav osk pel qui ros sul tem ulf wex yar".split()
_TOPICS = "rain trains coffee music today opensource 朝活 новости fútbol life data streaming".split()
_CITIES = ("Utrecht", "São Paulo", "Kraków", "大阪", "Zürich", "Nairobi", "Tromsø", "Москва", "Mérida", "Leeds")
_COUNTRIES = "NL BR PL JP CH KE NO RU MX GB".split()
_HEX = "0123456789abcdef"
_EPOCH = dt.datetime(2024, 1, 1)


class _Maker:
    """Generates random values of every type, and texts like those of real producers."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.words = {language: words.split() for language, words in _WORDS.items()}

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def many(self, most: int) -> range:
        """Return a range of random length. A length of 0 is frequent, and `most` is rare."""
        return range(int(self.rng.random() ** 2 * (most + 1)))

    def number(self, most: int) -> int:
        """Return a random number. Small numbers are more frequent than large ones."""
        return int(self.rng.random() ** 4 * most)

    def id(self, digits: int) -> int:
        return self.rng.randrange(10 ** (digits - 1), 10**digits)

    def hex(self, length: int) -> str:
        return "".join(self.rng.choices(_HEX, k=length))

    def language(self) -> str:
        return self.rng.choices(list(_SHARES), list(_SHARES.values()))[0]

    def text(self, language: str, most: int) -> str:
        """Return words of a language with quotes, emoji and punctuation, up to about `most` characters."""
        words, length = [], 0
        wanted = self.rng.randint(most // 4, most)
        while length < wanted:
            word = self.rng.choice(self.words[language])
            if self.chance(0.04):
                word = f'"{word}"'
            elif self.chance(0.04):
                word += self.rng.choice(_BETWEEN)
            words.append(word)
            length += len(word) + 1
        return " ".join(words)

    def word(self) -> str:
        return "".join(self.rng.choices(_SYLLABLES, k=self.rng.randint(2, 4)))

    def url(self, host: str, *parts: object) -> str:
        return "/".join(("https:/", f"{host}.example", *map(str, parts)))

    def time(self) -> dt.datetime:
        return _EPOCH + dt.timedelta(milliseconds=self.rng.randrange(10**10))

    def name(self) -> str:
        """Return a first and last name. Some are not ASCII."""
        if self.chance(0.3):
            language = self.rng.choice(("ja", "ru", "ko", "ar", "pl", "hi"))
            return f"{self.rng.choice(self.words[language])} {self.rng.choice(('☕', '🚂', '', '✨'))}".strip()
        return f"{self.word().title()} {self.word().title()}"

    def color(self) -> str:
        return self.hex(6)


def _written(record: Object, *, ascii: bool = False, slashes: bool = False) -> bytes:
    """Encode a record as JSON.

    ascii: escape all other characters. slashes: escape slashes, as PHP and Ruby do.
    """
    text = json.dumps(record, ensure_ascii=ascii, separators=(",", ":"))
    return (text.replace("/", "\\/") if slashes else text).encode()


# --- posts -----------------------------------------------------------------------------------------------

_POSTS = (
    "id BIGINT, created_at STRING, text STRING, lang STRING, repost_count INT, like_count INT, sensitive BOOLEAN, "
    "user ROW<id BIGINT, handle STRING, name STRING, followers_count INT, verified BOOLEAN>, "
    "entities ROW<tags ARRAY<ROW<text STRING, indices ARRAY<INT>>>, mentions ARRAY<ROW<id BIGINT, handle STRING>>>, "
    "reposted ROW<id BIGINT, text STRING, user ROW<id BIGINT, handle STRING>>"
)


def _post(m: _Maker) -> bytes:
    """Generate a post. One in four comes from a producer that escapes all characters except ASCII."""
    record = _post_record(m)
    if m.chance(0.5):
        index = list(record).index("user") + 1
        members = list(record.items())
        members.insert(index, ("reposted", _post_record(m)))
        record = dict(members)
    escaped = m.chance(0.25)
    return _written(record, ascii=escaped, slashes=escaped)


def _post_record(m: _Maker) -> Object:
    number, language = m.id(18), m.language()
    text = m.text(language, 140)
    reply = m.id(18) if m.chance(0.2) else None
    post: Object = {
        "metadata": {"result_type": "recent", "iso_language_code": language},
        "created_at": m.time().strftime("%a %b %d %H:%M:%S +0000 %Y"),
        "id": number,
        "id_text": str(number),
        "text": text,
        "source": f'<a href="{m.url("app." + m.word())}" rel="nofollow">{m.word().title()} for phones</a>',
        "truncated": False,
        "reply_to_post": reply,
        "reply_to_post_text": None if reply is None else str(reply),
        "reply_to_user": None if reply is None else m.id(9),
        "user": _poster(m),
        "geo": None,
        "coordinates": [m.rng.uniform(-180, 180), m.rng.uniform(-90, 90)] if m.chance(0.05) else None,
        "place": None,
        "contributors": None,
        "repost_count": m.number(9_000),
        "like_count": m.number(20_000),
        "entities": _entities(m, text),
        "liked": False,
        "reposted_by_me": False,
    }
    if m.chance(0.6):
        post["sensitive"] = m.chance(0.1)
    if m.chance(0.95):
        post["lang"] = language
    return post


def _poster(m: _Maker) -> Object:
    number, handle, picture = m.id(9), m.word() + str(m.number(999)), m.id(18)
    user: Object = {
        "id": number,
        "id_text": str(number),
        "name": m.name(),
        "handle": handle,
        "location": m.rng.choice((*_CITIES, "")),
        "description": m.text(m.language(), 160),
        "url": m.url(m.word(), handle) if m.chance(0.3) else None,
        "entities": {"description": {"urls": []}},
        "protected": False,
        "followers_count": m.number(90_000),
        "friends_count": m.number(4_000),
        "listed_count": m.number(400),
        "created_at": m.time().strftime("%a %b %d %H:%M:%S +0000 %Y"),
        "likes_count": m.number(30_000),
        "utc_offset": m.rng.choice((None, 32_400, -18_000, 3_600)),
        "time_zone": m.rng.choice((None, "Tokyo", "Quito", "Amsterdam")),
        "geo_enabled": m.chance(0.3),
        "verified": m.chance(0.02),
        "posts_count": m.number(80_000),
        "lang": m.language(),
        "translator": False,
        "background_color": m.color(),
        "background_image": m.url("images", "backgrounds", picture, "back.png"),
        "background_tile": m.chance(0.5),
        "picture": m.url("images", "pictures", picture, "normal.jpeg"),
        "link_color": m.color(),
        "sidebar_border_color": m.color(),
        "sidebar_fill_color": m.color(),
        "text_color": m.color(),
        "default_profile": m.chance(0.4),
        "following": False,
        "notifications": False,
    }
    if m.chance(0.5):
        user["banner"] = m.url("images", "banners", number, m.id(10))
    return user


def _entities(m: _Maker, text: str) -> Object:
    def indices() -> list[int]:
        start = m.rng.randrange(len(text))
        return [start, min(len(text), start + 9)]

    found: Object = {
        "tags": [{"text": m.rng.choice(_TOPICS), "indices": indices()} for _ in m.many(4)],
        "symbols": [],
        "urls": [_link(m, indices()) for _ in m.many(2)],
        "mentions": [],
    }
    for _ in m.many(4):
        number = m.id(9)
        mention = {"handle": m.word(), "name": m.name(), "id": number, "id_text": str(number), "indices": indices()}
        found["mentions"].append(mention)
    if m.chance(0.25):
        found["media"] = [_medium(m, indices())]
    return found


def _link(m: _Maker, indices: list[int]) -> Object:
    host, path = m.word(), m.word()
    shown = f"{host}.example/{path[:6]}…"
    return {"url": m.url("s", m.hex(8)), "expanded_url": m.url(host, path), "display_url": shown, "indices": indices}


def _medium(m: _Maker, indices: list[int]) -> Object:
    number = m.id(18)
    sizes = {name: {"w": m.rng.randint(40, 1024), "h": m.rng.randint(40, 1024), "resize": "fit"} for name in ("s", "l")}
    return {
        "id": number,
        "id_text": str(number),
        "indices": indices,
        "media_url": m.url("media", m.hex(12) + ".jpg"),
        "type": "photo",
        "sizes": {**sizes, "thumb": {"w": 150, "h": 150, "resize": "crop"}},
    }


# --- events ----------------------------------------------------------------------------------------------

_EVENTS = (
    "id STRING, type STRING, actor ROW<id BIGINT, login STRING>, repo ROW<id BIGINT, name STRING>, "
    "payload ROW<action STRING, ref STRING, push_id BIGINT, size INT, "
    "commits ARRAY<ROW<sha STRING, message STRING, author ROW<name STRING, email STRING>>>, "
    "issue ROW<number INT, title STRING, state STRING, labels ARRAY<ROW<name STRING, color STRING>>>>, "
    "public BOOLEAN, created_at TIMESTAMP_LTZ(0)"
)


def _event(m: _Maker) -> bytes:
    """Generate an event: a push, issue, comment, star or release. It is UTF-8 without escapes of other characters."""
    types = {"Push": _push, "Issue": _issue_event, "Comment": _comment, "Star": _star, "Release": _release}
    kind = m.rng.choices(list(types), (45, 15, 20, 8, 12))[0]
    login, project = m.word(), f"{m.word()}/{m.word()}"
    event: Object = {
        "id": str(m.id(11)),
        "type": f"{kind}Event",
        "actor": {**_account(m, login), "display_login": login, "gravatar_id": ""},
        "repo": {"id": m.id(9), "name": project, "url": m.url("api", "repos", project)},
        "payload": types[kind](m, project),
        "public": True,
        "created_at": m.time().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if m.chance(0.3):
        team = m.word()
        event["org"] = {**_account(m, team), "gravatar_id": ""}
    return _written(event)


def _account(m: _Maker, login: str) -> Object:
    number = m.id(8)
    picture = m.url("pictures", "u", number) + "?v=4"
    return {"id": number, "login": login, "url": m.url("api", "users", login), "avatar_url": picture}


def _push(m: _Maker, project: str) -> Object:
    commits = []
    for _ in range(1 + len(m.many(6))):
        sha = m.hex(40)
        author = {"email": f"{m.word()}@mail.example", "name": m.name()}
        message = f"{m.text('en', 60)}\n\n{m.text(m.language(), 160)}"
        url = m.url("api", "repos", project, "commits", sha)
        commits.append({"sha": sha, "author": author, "message": message, "distinct": m.chance(0.9), "url": url})
    return {
        "repository_id": m.id(9),
        "push_id": m.id(11),
        "size": len(commits),
        "distinct_size": len(commits),
        "ref": m.rng.choice(("refs/heads/main", f"refs/heads/{m.word()}")),
        "head": m.hex(40),
        "before": m.hex(40),
        "commits": commits,
    }


def _issue(m: _Maker, project: str) -> Object:
    number = m.number(9_000) + 1
    url = m.url("api", "repos", project, "issues", number)
    labels = [
        {"id": m.id(9), "url": f"{url}/labels", "name": m.word(), "color": m.color(), "default": m.chance(0.2)}
        for _ in m.many(4)
    ]
    issue: Object = {
        "url": url,
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "html_url": m.url("code", project, "issues", number),
        "id": m.id(10),
        "node_id": m.hex(24),
        "number": number,
        "title": m.text(m.language(), 70),
        "user": {**_account(m, m.word()), "type": "User", "site_admin": False},
        "labels": labels,
        "state": m.rng.choice(("open", "closed")),
        "locked": False,
        "assignee": None,
        "assignees": [],
        "milestone": None,
        "comments": m.number(60),
        "created_at": m.time().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "closed_at": None,
        "body": f"<!-- {m.text('en', 60)} -->\r\n{m.text(m.language(), 700)}",
        "reactions": {"total_count": 0, "+1": 0, "-1": 0, "laugh": 0, "heart": 0},
    }
    if m.chance(0.4):
        issue["draft"] = False
    return issue


def _issue_event(m: _Maker, project: str) -> Object:
    return {"action": m.rng.choice(("opened", "closed", "labeled")), "issue": _issue(m, project)}


def _comment(m: _Maker, project: str) -> Object:
    text = f"> {m.text('en', 100)}\r\n\r\n```\r\nat {m.word()}.{m.word()}(Main.java:{m.number(999)})\r\n```"
    comment = {"id": m.id(10), "user": _account(m, m.word()), "body": text, "author_association": "NONE"}
    return {"action": "created", "issue": _issue(m, project), "comment": comment}


def _star(m: _Maker, project: str) -> Object:
    repository = {"id": m.id(9), "full_name": project, "owner": _account(m, m.word()), "topics": []}
    return {"action": "started", "repository": {**repository, "description": m.text(m.language(), 300)}}


def _release(m: _Maker, project: str) -> Object:
    version = f"v{m.number(9)}.{m.number(30)}.{m.number(9)}"
    assets = [
        {"name": f"{m.word()}-{version}.tar.gz", "size": m.number(10**8), "download_count": m.number(10**5)}
        for _ in range(1 + len(m.many(5)))
    ]
    release = {"tag_name": version, "draft": False, "author": _account(m, m.word()), "assets": assets}
    return {"action": "published", "release": {**release, "body": m.text(m.language(), 600)}}


# --- catalog ---------------------------------------------------------------------------------------------

_CATALOG = (
    "name STRING, title STRING, description STRING, version STRING, downloads BIGINT, rating DOUBLE, "
    "deprecated BOOLEAN, released TIMESTAMP(3), maintainers ARRAY<ROW<name STRING, email STRING>>, "
    "dependencies MAP<STRING, STRING>, downloads_of MAP<STRING, BIGINT>"
)


def _project(m: _Maker) -> bytes:
    """Generate a package description. The description is HTML, and the maps have names and versions as keys."""
    name = f"{m.word()}-{m.word()}"
    versions = [f"{m.number(9)}.{m.number(20)}.{i}" for i in m.many(12)]
    record: Object = {
        "_id": m.hex(24),
        "name": name,
        "title": m.text("en", 40).title(),
        "description": _html(m, name),
        "version": versions[-1] if versions else "0.1.0",
        "license": m.rng.choice(("Apache-2.0", "MIT", None, {"type": "BSD", "url": m.url("licenses", "bsd")})),
        "keywords": m.rng.sample(_TOPICS, len(m.many(6))),
        "maintainers": [
            {"name": m.name(), "email": f"{m.word()}@mail.example", "role": m.rng.choice(("owner", "writer"))}
            for _ in range(1 + len(m.many(4)))
        ],
        "dependencies": {m.word(): f"^{m.number(9)}.{m.number(20)}.0" for _ in m.many(16)},
        "downloads_of": {version: m.number(10**7) for version in versions},
        "downloads": m.number(10**9),
        "rating": round(m.rng.uniform(1, 5), 2),
        "released": f"{m.time().isoformat(' ', 'milliseconds')}",
        "scripts": {"test": "run --all", "build": f'make {name} && echo "done"'},
    }
    if m.chance(0.2):
        record["deprecated"] = m.chance(0.5)
    for optional in ("maintainers", "dependencies", "downloads_of", "rating"):
        if m.chance(0.1):
            del record[optional]
    if m.chance(0.5):
        record["links"] = {"home": m.url(name), "issues": m.url("code", name, "issues"), "wiki": None}
    return _written(record, slashes=m.chance(0.5))


def _html(m: _Maker, name: str) -> str:
    paragraphs = [
        f'<p class="{m.word()}">{m.text(m.language(), 160)} <a href="{m.url(name)}">{m.word()}</a></p>'
        for _ in range(1 + len(m.many(6)))
    ]
    return "\n".join([f"<h1>{name}</h1>", *paragraphs, "<pre><code>pip install \\\n\t--upgrade</code></pre>"])


# --- performances ----------------------------------------------------------------------------------------

_PERFORMANCES = (
    "id BIGINT, event_id BIGINT, start BIGINT, venue STRING, sold DOUBLE, "
    "prices ARRAY<ROW<amount INT, category_id BIGINT>>, "
    "categories ARRAY<ROW<category_id BIGINT, areas ARRAY<ROW<area_id BIGINT>>>>"
)


def _performance(m: _Maker) -> bytes:
    categories = [m.id(9) for _ in range(m.rng.randint(1, 6))]
    audience = m.id(9)
    areas = [m.id(9) for _ in range(m.rng.randint(20, 40))]

    def places() -> list[Object]:
        return [{"area_id": area, "block_ids": [m.id(9) for _ in m.many(1)]} for area in areas if m.chance(0.4)]

    record: Object = {
        "event_id": m.id(9),
        "id": m.id(9),
        "logo": None if m.chance(0.8) else m.url("images", m.hex(8) + ".png"),
        "name": None,
        "prices": [
            {"amount": 500 * m.rng.randint(4, 300), "audience_id": audience, "category_id": category}
            for category in categories
        ],
        "categories": [{"areas": places(), "category_id": category} for category in categories],
        "seat_map": None,
        "start": 1_700_000_000_000 + 60_000 * m.number(10**6),
        "venue": m.rng.choice(("GRAND_HALL", "OPERA_1", "OLD_MILL")),
    }
    if m.chance(0.7):
        record["sold"] = round(m.rng.random(), 4)
    return _written(record)


# --- users -----------------------------------------------------------------------------------------------

_USERS = (
    "id BIGINT, name STRING, email STRING, age INT, active BOOLEAN, balance DOUBLE, signed_up TIMESTAMP(3), "
    "address ROW<city STRING, country STRING>, tags ARRAY<STRING>"
)


def _user(m: _Maker) -> bytes:
    record: Object = {
        "id": m.id(m.rng.randint(4, 12)),
        "name": m.name(),
        "email": f"{m.word()}@mail.example",
        "active": m.chance(0.8),
        "signed_up": m.time().isoformat(" ", "milliseconds"),
    }
    if m.chance(0.7):
        record["age"] = m.rng.randint(14, 99)
    if m.chance(0.6):
        record["balance"] = round(m.rng.gauss(100, 80), 2)
    if m.chance(0.6):
        at = m.rng.randrange(len(_CITIES))
        street = f"{m.word().title()} {m.number(200)}"
        record["address"] = {"street": street, "city": _CITIES[at], "zip": str(m.id(5)), "country": _COUNTRIES[at]}
    if m.chance(0.5):
        record["tags"] = m.rng.sample(_TOPICS, len(m.many(5)))
    if m.chance(0.3):
        record["last_login"] = {"ip": f"10.0.{m.number(255)}.{m.number(255)}", "agent": m.text("en", 120)}
    return _written(record)
