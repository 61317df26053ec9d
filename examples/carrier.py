"""A carrier for `stage_store.py`: it sells labels for parcels over HTTP, and the same one again for the same key.

`python examples/carrier.py [PORT]` serves it on this machine until Ctrl-C; by default the port is 9400.
"""

from __future__ import annotations

import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sold: dict[str, dict[str, str]] = {}


class Carrier(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Idempotency-Key"]
        tracking = hashlib.sha256(key.encode()).hexdigest()[:12]
        label = sold.setdefault(key, {"label": f"{asked['reference']}, {asked['weight_kg']} kg", "tracking": tracking})
        body = json.dumps(label).encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(port: int) -> ThreadingHTTPServer:
    return ThreadingHTTPServer(("127.0.0.1", port), Carrier)


if __name__ == "__main__":
    with serve(int(sys.argv[1]) if len(sys.argv) > 1 else 9400) as server:
        server.serve_forever()
