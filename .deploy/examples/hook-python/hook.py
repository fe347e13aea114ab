"""A small decision hook for Penstock, with nothing but Python's own library.

It refuses requests that contain a word, and replaces another word before an engine sees it. Begin
with it for a hook of your own:

    python3 hook.py --listen 127.0.0.1:8090 --refuse swordfish --mask Bond

and in the configuration

    hooks: [{ name: guard, before: "http://127.0.0.1:8090/decide", send: body }]

It keeps nothing and logs no text of a request.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def texts(value):
    """Yield every text in a JSON value, except the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)


def replaced(value, word):
    """Return a JSON value with a word replaced in every text."""
    if isinstance(value, str):
        return value.replace(word, "[removed]")
    if isinstance(value, list):
        return [replaced(item, word) for item in value]
    if isinstance(value, dict):
        return {name: replaced(item, word) for name, item in value.items()}
    return value


def decide(question, refuse, mask):
    """Return the decision about a request. Members that are not needed are ignored."""
    body = question.get("body")  # absent without send: body, and for uploads
    if body is None:
        return {"action": "allow"}
    if refuse and any(refuse in text for text in texts(body)):
        return {"action": "refuse", "status": 403, "message": "The request contains a word that is not allowed here."}
    if mask and any(mask in text for text in texts(body)):
        return {"action": "rewrite", "body": replaced(body, mask)}
    return {"action": "allow"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open
    disable_nagle_algorithm = True

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(decide(question, options.refuse, options.mask)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    flags = argparse.ArgumentParser()
    flags.add_argument("--listen", default="127.0.0.1:8090", help="the address to listen at")
    flags.add_argument("--refuse", default="", help="refuse requests that contain this word")
    flags.add_argument("--mask", default="", help="replace this word")
    options = flags.parse_args()
    host, port = options.listen.rsplit(":", 1)
    server = ThreadingHTTPServer((host, int(port)), Handler)
    print("listening at %s:%d" % server.server_address, flush=True)
    server.serve_forever()
