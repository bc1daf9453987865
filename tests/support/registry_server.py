"""A fake Confluent schema registry on 127.0.0.1. Tests set its schemas and its failures."""

from __future__ import annotations

import base64
import http.server
import json
import re
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Answer = tuple[int, Any]


@dataclass
class Registry:
    """A schema registry. One server may serve several.

    ids: schema texts by id.
    references: the references of schemas, by id.
    types: the schema type by id, for schemas that are not Avro.
    next_id: the id for the next new schema.
    refused: subjects for which registration fails.
    reasons: the messages of a check of compatibility, None if the registry gives none.
    requests: all requests in order, such as `GET /schemas/ids/1`.
    failing: the number of next requests to answer with `status` and `body`.
    delay: seconds before each answer.
    credentials: the required `user:password`, or None.
    together: a barrier at which each request waits.
    endless: pieces of an answer that never ends, `chunked` or after a wrong `Content-Length`.
    headers: additional headers of answers.
    next_reference: whether each version of the subject `endless` refers to the next version.
    echo: a function from the headers of a request to the answer.
    has_guids: whether the registry knows GUIDs, as Confluent's does from version 8.0.
    bearer: a function that accepts or rejects a bearer token, or None if no token is required.
    moved: the URL that requests are redirected to, with their path; `moved_status` is the status of these answers.
    contexts: the registry of each context, such as `.stg`.
    """

    ids: dict[int, str] = field(default_factory=dict)
    types: dict[int, str] = field(default_factory=dict)
    next_id: int = 1
    refused: tuple[str, ...] = ()
    reasons: Any = None
    references: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    registered: list[tuple[str, int, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    failing: int = 0
    status: int = 500
    body: bytes = b"<html>Internal Server Error</html>"
    delay: float = 0
    credentials: str | None = None
    authorization: list[str | None] = field(default_factory=list)
    together: threading.Barrier | None = None
    endless: Iterator[bytes] | None = None
    chunked: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    next_reference: bool = False
    echo: Callable[[dict[str, str]], tuple[int, bytes]] | None = None
    has_guids: bool = True
    bearer: Callable[[str], bool] | None = None
    moved: str = ""
    moved_status: int = 308
    contexts: dict[str, Registry] = field(default_factory=dict)
    url: str = ""

    def answer(self, method: str, path: list[str], body: Any) -> Answer:
        if method == "GET" and path[:2] == ["schemas", "ids"] and len(path) == 3:
            schema_id = int(path[2]) if re.fullmatch(r"-?\d+", path[2]) else 0
            return self._schema(schema_id, path[2])
        if method == "GET" and path[:2] == ["schemas", "guids"] and len(path) == 3 and self.has_guids:
            return self._schema(next((i for i in self.ids if self.guid(i) == path[2]), 0), path[2])
        if method == "POST" and path[:2] == ["compatibility", "subjects"] and path[3:] == ["versions"]:
            found = {"is_compatible": path[2] not in self.refused}
            return 200, found if self.reasons is None else {**found, "messages": self.reasons}
        if path[:1] != ["subjects"] or len(path) < 2:
            return _missing(404, "HTTP 404 Not Found")
        if method == "POST":
            return self._post(path, body)
        if self.next_reference and path[1] == "endless":
            version = int(path[3])
            reference = {"name": f"next{version}", "subject": "endless", "version": version + 1}
            return 200, {"subject": "endless", "id": 1, "version": version, "schema": "{}", "references": [reference]}
        known = self.subjects.get(path[1])
        if known is None:
            return _missing(40401, f"Subject '{path[1]}' not found.")
        if path[2:] in ([], ["versions", "latest"]):
            return self._version(path[1], known[-1])
        number = int(path[3])
        return (
            self._version(path[1], known[number - 1]) if number <= len(known) else _missing(40402, "Version not found.")
        )

    def guid(self, schema_id: int) -> str:
        """Return the GUID of a schema, which depends on its content only."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._type(schema_id)} {self.ids[schema_id]}"))

    def _schema(self, schema_id: int, asked: str) -> Answer:
        if schema_id not in self.ids:
            return _missing(40403, f"Schema {asked} not found")
        references = {"references": self.references[schema_id]} if schema_id in self.references else {}
        return 200, {"schema": self.ids[schema_id]} | self._type(schema_id) | references

    def _post(self, path: list[str], body: Any) -> Answer:
        kind = body.get("schemaType", "AVRO")
        subject, schema = path[1], _parsed(kind, body["schema"])
        same_kind = [i for i in self.ids if self.types.get(i, "AVRO") == kind]
        found = next((i for i in same_kind if _parsed(kind, self.ids[i]) == schema), None)
        if path[2:] != ["versions"]:
            if subject not in self.subjects:
                return _missing(40401, f"Subject '{subject}' not found.")
            known = found in self.subjects[subject]
            return self._version(subject, found) if known and found is not None else _missing(40403, "Schema not found")
        if subject in self.refused:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
        if found is None:
            found, self.next_id = self.next_id, self.next_id + 1
            self.ids[found] = body["schema"]
            if body.get("references"):
                self.references[found] = body["references"]
            if kind != "AVRO":
                self.types[found] = kind
        if found not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(found)
            self.registered.append((subject, found, schema))
        return 200, {"id": found} | ({"guid": self.guid(found)} if self.has_guids else {})

    def _version(self, subject: str, schema_id: int) -> Answer:
        version = self.subjects[subject].index(schema_id) + 1
        found = {"subject": subject, "id": schema_id, "version": version, "schema": self.ids[schema_id]}
        references = {"references": self.references[schema_id]} if schema_id in self.references else {}
        guid = {"guid": self.guid(schema_id)} if self.has_guids else {}
        return 200, found | guid | self._type(schema_id) | references

    def _type(self, schema_id: int) -> dict[str, str]:
        return {"schemaType": self.types[schema_id]} if schema_id in self.types else {}


def _parsed(kind: str, text: str) -> Any:
    return text if kind == "PROTOBUF" else json.loads(text)


def _missing(code: int, text: str) -> Answer:
    return 404, {"error_code": code, "message": text}


class RegistryServer:
    """An HTTP server for any number of registries, each with its own path."""

    def __init__(self) -> None:
        self._registries: dict[str, Registry] = {}
        self._count = 0
        self._stopping = threading.Event()
        lock, registries, stopping = threading.Lock(), self._registries, self._stopping

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

            def answer(self) -> None:
                if stopping.is_set():  # a connection that was opened before a restart
                    self.close_connection = True
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                name, *path = [urllib.parse.unquote(p) for p in urllib.parse.urlsplit(self.path).path.split("/") if p]
                registry = registries.get(name)
                if registry is None:
                    self.reply(404, b"", Registry())
                    return
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get("subject", [])
                for number, text in enumerate([*path, *query]):
                    named = re.match(r":(\.[^:]*):", text)
                    if named:
                        registry = registry.contexts[named[1]]
                        path[number:] = [text[named.end() :], *path[number + 1 :]] if number < len(path) else []
                if registry.moved:
                    registry.requests.append(f"{self.command} /{'/'.join(path)}")
                    rest = self.path.split("/", 2)[2]
                    self.reply(registry.moved_status, b"", Registry(headers={"Location": f"{registry.moved}/{rest}"}))
                    return
                if registry.delay:
                    time.sleep(registry.delay)
                if registry.together is not None:
                    registry.together.wait(30)
                with lock:
                    status, data = self.answered(registry, path, body)
                if registry.echo is not None:
                    status, data = registry.echo(dict(self.headers))
                self.reply(status, data, registry)

            def answered(self, registry: Registry, path: list[str], body: bytes) -> tuple[int, bytes]:
                registry.requests.append(f"{self.command} /{'/'.join(path)}")
                registry.authorization.append(self.headers.get("Authorization"))
                if registry.credentials is not None:
                    wanted = "Basic " + base64.b64encode(registry.credentials.encode()).decode()
                    if self.headers.get("Authorization") != wanted:
                        return 401, b'{"error_code":401,"message":"Unauthorized"}'
                if registry.bearer is not None:
                    kind, _, token = (self.headers.get("Authorization") or "").partition(" ")
                    if kind != "Bearer" or not registry.bearer(token):
                        return 401, b'{"error_code":401,"message":"Unauthorized"}'
                if registry.failing:
                    registry.failing -= 1
                    return registry.status, registry.body
                status, reply = registry.answer(self.command, path, json.loads(body) if body else None)
                return status, json.dumps(reply).encode()

            def reply(self, status: int, data: bytes, registry: Registry) -> None:
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                    for name, value in registry.headers.items():
                        self.send_header(name, value)
                    if registry.chunked:
                        self.send_header("Transfer-Encoding", "chunked")
                    else:
                        self.send_header("Content-Length", str(len(data) if registry.endless is None else 10**9))
                    self.end_headers()
                    if registry.endless is None:
                        self.wfile.write(data)
                        return
                    for piece in registry.endless:
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if registry.chunked else piece)
                    self.close_connection = True
                except OSError:
                    self.close_connection = True  # the client closed the connection

            do_GET = do_POST = answer

            def log_message(self, *args: Any) -> None:
                pass

        self._handler = Handler
        self._start(0)

    def _start(self, port: int) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), self._handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Close the port inside the `with` block, and open it again afterwards."""
        port = self._server.server_address[1]
        self._stopping.set()
        self.close()
        yield
        self._stopping.clear()
        self._start(int(port))

    @contextmanager
    def serving(self, registry: Registry | None = None) -> Iterator[Registry]:
        """Serve a registry at its `url`. Creates a new registry if None is given."""
        registry = registry or Registry()
        self._count += 1
        name = str(self._count)
        self._registries[name] = registry
        registry.url = f"http://127.0.0.1:{self._server.server_address[1]}/{name}"
        yield registry
        del self._registries[name]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
