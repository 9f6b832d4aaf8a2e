"""Certificates, servers that use them, and a small TLS server that records what a client sends.

    authority = Authority(folder)                           # its certificate is authority.file
    pair = authority.issue("localhost", "127.0.0.1")        # pair.cert, pair.key; the names and addresses in it
    authority.issue("localhost", end=YEAR(2021))       # expired
    authority.issue("localhost", named=False)          # its common name alone says localhost
    server = secure(new_server, authority, pair)            # a redis-server; secure_url(server) is rediss://localhost:PORT

    with Recorder(pair) as recorder:                                  # replies +OK to every command; recorder.names: the server names
        recorder.url, recorder.received                                  # requested (SNI); recorder.received: the data received through TLS
"""
from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import pathlib
import socket
import ssl
import subprocess
import threading
from typing import Any, Callable

from .build import clean_env
from .resp import parse
from .server import Server, free_port

YEAR = "{}0101000000Z".format  # a date, for issue()
CONFIG = """
[ca]
default_ca = this
[this]
database = {folder}/index
new_certs_dir = {folder}
certificate = {folder}/ca.pem
private_key = {folder}/ca.key
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
"""


@dataclasses.dataclass
class Pair:
    cert: pathlib.Path
    key: pathlib.Path


def openssl(*words: Any) -> None:
    done = subprocess.run(["openssl", *map(str, words)], env=clean_env(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def new_key(*words: Any) -> list[Any]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", *words]


class Authority:
    def __init__(self, folder: pathlib.Path, name: str = "authority") -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.config, self.file = self.folder / "config", self.folder / "ca.pem"
        self.config.write_text(CONFIG.format(folder=self.folder))
        (self.folder / "index").touch()
        openssl("req", "-config", self.config, "-x509", "-extensions", "authority", "-days", 30, "-subj", f"/CN={name}",
                *new_key("-keyout", self.folder / "ca.key", "-out", self.file))  # fmt: skip
        self._made = 0

    def revoke(self, pair: Pair) -> None:
        openssl("ca", "-config", self.config, "-revoke", pair.cert)

    def revoked(self, *until: Any) -> pathlib.Path:
        """The current revocation list."""
        path = self.folder / "crl.pem"
        openssl("ca", "-config", self.config, "-gencrl", *(until or ("-crldays", 30)), "-out", path)
        return path

    def issue(self, *names: str, start: str = YEAR(2020), end: str = YEAR(2100), named: bool = True, purpose: str = "") -> Pair:
        """named: it has alternative names, and not the common name alone. purpose: what it is for, in words of OpenSSL."""
        self._made += 1
        stem = self.folder / f"made{self._made}"
        pair, request = Pair(stem.with_suffix(".pem"), stem.with_suffix(".key")), stem.with_suffix(".csr")
        alternatives = ",".join(("IP:" if is_address(name) else "DNS:") + name for name in names)
        extensions = [f"subjectAltName={alternatives}"] * named + [f"extendedKeyUsage={purpose}"] * bool(purpose)
        openssl("req", "-config", self.config, "-new", "-subj", f"/CN={names[0]}", *(word for one in extensions for word in ("-addext", one)),
                *new_key("-keyout", pair.key, "-out", request))  # fmt: skip
        openssl("ca", "-batch", "-notext", "-config", self.config, "-in", request, "-out", pair.cert, "-startdate", start, "-enddate", end)
        return pair


def is_address(name: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return False


def secure(new_server: Callable[..., Server], authority: Authority, pair: Pair, *options: str, clients: str = "no") -> Server:
    """A server with a TLS port besides its own. clients: whether they need certificates."""
    for _ in range(5):  # the port may be taken between the check and the start
        port = free_port()
        try:
            server = new_server("--tls-port", str(port), "--tls-cert-file", str(pair.cert), "--tls-key-file", str(pair.key),
                                "--tls-ca-cert-file", str(authority.file), "--tls-auth-clients", clients, *options)  # fmt: skip
        except RuntimeError as error:
            last = error
            continue
        server.tls_port = port  # type: ignore[attr-defined]
        return server
    raise last


def tls_only(authority: Authority, pair: Pair) -> tuple[str, ...]:
    """For Server(secured=...): TLS with clients and among servers, with one certificate for all."""
    files = ("--tls-cert-file", str(pair.cert), "--tls-key-file", str(pair.key), "--tls-ca-cert-file", str(authority.file))
    return (*files, "--tls-auth-clients", "no", "--tls-replication", "yes")


def secure_url(server: Server, host: str = "localhost") -> str:
    return f"rediss://{host}:{server.tls_port}"  # type: ignore[attr-defined]


class Recorder:
    """A TLS server that accepts one connection after the other and keeps what it reads."""

    def __init__(self, pair: Pair, **settings: Any) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        for name, value in settings.items():
            setattr(self.context, name, value)
        self.context.load_cert_chain(pair.cert, pair.key)
        self.context.sni_callback = lambda _connection, name, _context: self.names.append(name)
        self.names: list[str | None] = []
        self.received = b""
        self.resumed = 0  # sessions that continue an earlier one
        self.failed: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"rediss://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        with link:
            try:
                with self.context.wrap_socket(link, server_side=True) as secured:
                    self.resumed += bool(secured.session_reused)
                    rest = b""
                    while data := secured.recv(65536):
                        self.received += data
                        rest += data
                        while parsed := parse(rest, 0) if rest else None:
                            rest = rest[parsed[1] :]
                            secured.sendall(b"+OK\r\n")
            except OSError as error:
                self.failed.append(str(error))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
