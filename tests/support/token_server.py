"""An OAuth token endpoint on 127.0.0.1: it issues signed tokens to clients with a secret, and serves the public key."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
import urllib.parse
import uuid
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa


class TokenServer:
    """Issues tokens at `url` for the grant type `client_credentials`. Its keys are at `keys_url`.

    lifetime: the lifetime of tokens in seconds. None omits it from the answer.
    failing: the number of next requests to answer with 503.
    scopes, clients, tokens: the requested scopes, the client ids and the issued tokens, in order.
    """

    issuer, audience = "https://tokens.example", "kafka"
    client_id, client_secret = "orders-job", "Tr0ub4dor-secret/+ 1"

    def __init__(self, lifetime: int | None = 300) -> None:
        self.lifetime = lifetime
        self.failing = 0
        self.scopes: list[str | None] = []
        self.clients: list[str] = []
        self.tokens: list[str] = []
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(200, {"keys": [server.public_key()]})

            def do_POST(self) -> None:
                form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                self.reply(*server.answer(form, self.headers.get("Authorization", "")))

            def reply(self, status: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url, self.keys_url = f"{root}/token", f"{root}/keys"

    def answer(self, form: dict[str, str], authorization: str) -> tuple[int, Any]:
        """Return the answer to a token request."""
        if self.failing:
            self.failing -= 1
            return 503, {"error": "temporarily_unavailable"}
        user, secret = form.get("client_id", ""), form.get("client_secret", "")
        if authorization.startswith("Basic "):
            user, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        # some clients form-encode id and secret, as the standard says; others do not
        if self.client_secret not in (secret, urllib.parse.unquote_plus(secret)) or user != self.client_id:
            return 401, {"error": "invalid_client", "error_description": f"{user} may not: {secret}"}
        if form.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type"}
        self.clients.append(user)
        self.scopes.append(form.get("scope"))
        lifetime = {} if self.lifetime is None else {"expires_in": self.lifetime}
        self.tokens.append(self.token())
        return 200, {"access_token": self.tokens[-1], "token_type": "Bearer", **lifetime}

    def token(self, **claims: Any) -> str:
        """Return a signed token of this server. `claims` replace the default claims."""
        now = int(time.time())
        expires = now + (300 if self.lifetime is None else self.lifetime)
        payload = {"iss": self.issuer, "aud": self.audience, "sub": self.client_id, "jti": uuid.uuid4().hex}
        payload |= {"iat": now, "exp": expires, "scope": ["read"], **claims}
        signed = f"{_encoded({'alg': 'RS256', 'kid': 'one', 'typ': 'JWT'})}.{_encoded(payload)}"
        return f"{signed}.{_text(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def public_key(self) -> dict[str, str]:
        """The public key as a JWK."""
        numbers = self._key.public_key().public_numbers()
        parts = {name: _text(n.to_bytes((n.bit_length() + 7) // 8)) for name, n in (("n", numbers.n), ("e", numbers.e))}
        return {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", **parts}

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def _encoded(value: Any) -> str:
    return _text(json.dumps(value).encode())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
