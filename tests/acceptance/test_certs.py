"""`perdure certs` and `--tls`, as a user has them."""

from __future__ import annotations

import json
import re
import signal
import ssl
import subprocess
from pathlib import Path

import httpx

from tests.acceptance.conftest import APP
from tests.acceptance.terminal import Terminal

DID = "did:web:ann.example"


def text_of(certificate: str) -> str:
    """What openssl says of a certificate."""
    command = ["openssl", "x509", "-in", certificate, "-noout", "-text"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_certificates_are_made_once_and_their_keys_are_their_owners_alone(elsewhere: Terminal) -> None:
    made = json.loads(elsewhere("certs", "--json").out)
    folder = elsewhere.folder / ".perdure" / "certs"
    assert {Path(path).parent for path in made.values()} == {folder}
    shown = text_of(made["certificate"])
    assert "DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1" in shown
    assert "TLS Web Server Authentication" in shown
    again = (folder / "server.pem").read_bytes()
    assert json.loads(elsewhere("certs", "--json").out) == made
    assert (folder / "server.pem").read_bytes() == again
    elsewhere("certs", "--renew")
    assert (folder / "server.pem").read_bytes() != again
    for key in folder.glob("*.key"):
        assert key.stat().st_mode & 0o777 == 0o600
    assert (folder / ".gitignore").read_text() == "*\n"


def test_a_server_has_the_names_that_it_is_given(elsewhere: Terminal) -> None:
    made = json.loads(elsewhere("certs", "--host", "agents.example", "--host", "192.0.2.7", "--json").out)
    shown = text_of(made["certificate"])
    assert "DNS:agents.example" in shown
    assert "IP Address:192.0.2.7" in shown
    elsewhere("certs", "--host", "bücher.example", code=2).check_error("xn--")


def test_a_clients_certificate_names_its_did(elsewhere: Terminal) -> None:
    made = json.loads(elsewhere("certs", "client", DID, "--json").out)
    shown = text_of(made["certificate"])
    assert f"URI:{DID}" in shown
    assert "TLS Web Client Authentication" in shown
    verified = subprocess.run(["openssl", "verify", "-CAfile", made["authority"], made["certificate"]], check=False)
    assert verified.returncode == 0
    elsewhere("certs", "client", "ann", code=2).check_error("no DID")


def test_certificates_that_are_damaged_are_named(elsewhere: Terminal) -> None:
    made = json.loads(elsewhere("certs", "--json").out)
    Path(made["authority"]).write_text("nonsense")
    elsewhere("certs", code=2).check_error(str(Path(made["authority"]).parent))


def test_dev_with_tls(elsewhere: Terminal) -> None:
    """It makes what it needs, speaks TLS 1.3, and another server of the folder trusts the same authority."""
    (elsewhere.folder / "agents.py").write_text(APP, encoding="utf-8")
    server = elsewhere.start("dev", "agents:app", "--tls")
    server.until(lambda: "API ready" in server.err)
    found = re.search(r"API ready: (https://\S+)/api", server.err)
    assert found, server.err
    trust = ssl.create_default_context(cafile=str(elsewhere.folder / ".perdure" / "certs" / "ca.pem"))
    with httpx.Client(http2=True, verify=trust, timeout=60) as client:
        answer = client.get(f"{found[1]}/health")
        assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
        assert "h3" in answer.headers["alt-svc"]
        document = client.get(f"{found[1]}/.well-known/did.json")
        assert document.status_code == 200, document.text
    beside = elsewhere.start("serve", "--port", "0", "--tls", "--grpc-port", "0")
    beside.until(lambda: "gRPC ready" in beside.err)
    beside.send(signal.SIGTERM)
    assert beside.wait() == 0
    server.send(signal.SIGINT)
    assert server.wait() == 0
