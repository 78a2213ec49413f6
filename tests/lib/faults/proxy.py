"""Stands between a client and a daemon on loopback, and holds every answer back: proxy.py LISTEN TARGET SECONDS."""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import suppress


def pump(source: socket.socket, target: socket.socket, delay_s: float) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            time.sleep(delay_s)
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def main() -> None:
    listen, target, delay_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    server = socket.create_server(("127.0.0.1", listen))
    print("ready", flush=True)
    while True:
        client, _ = server.accept()
        daemon = socket.create_connection(("127.0.0.1", target))
        for words in ((client, daemon, 0.0), (daemon, client, delay_s)):
            threading.Thread(target=pump, args=words, daemon=True).start()


if __name__ == "__main__":
    main()
