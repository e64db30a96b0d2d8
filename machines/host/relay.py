"""Relays a port of the loopback interface to the unix socket in argv[1].

Ends with its standard input, which is the connection.
"""

import contextlib
import socket
import sys
import threading


def copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def serve(client: socket.socket) -> None:
    with client, socket.socket(socket.AF_UNIX) as gateway:
        try:
            gateway.connect(sys.argv[1])
        except OSError:
            return
        back = threading.Thread(target=copy, args=(gateway, client), daemon=True)
        back.start()
        copy(client, gateway)
        back.join()


def listen(server: socket.socket) -> None:
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()


server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=listen, args=(server,), daemon=True).start()
print("\ntpulab-port", server.getsockname()[1], flush=True)
sys.stdin.buffer.read()
