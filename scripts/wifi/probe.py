#!/usr/bin/env python3
"""A TCP flow of small segments through the agent, and what became of their order.

serve PORT SECONDS: a segment every 10 ms, numbered, to the first that connects.
fetch HOST PORT FILE: one line a segment: number, wall clock in seconds.
capture PORT FILE SECONDS: one line a packet of the flow: `in` from the wire or `out` to the air, IP identification,
sequence number.
"""

import socket
import struct
import sys
import time

INTERVAL = 0.01
MESSAGE = struct.Struct("!I92x")
# Sockets for one protocol alone do not see what goes out.
ETH_P_ALL, ETH_P_IP, PACKET_HOST, PACKET_OUTGOING, IPPROTO_TCP = 0x0003, 0x0800, 0, 4, 6


def serve(port, seconds):
    with socket.create_server(("0.0.0.0", port)) as server:
        sock, _ = server.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    due = time.time()
    for number in range(int(seconds / INTERVAL)):
        sock.sendall(MESSAGE.pack(number))
        due += INTERVAL
        time.sleep(max(0, due - time.time()))
    sock.close()


def fetch(host, port, path):
    with socket.create_connection((host, port)) as sock, open(path, "w") as out:
        data = b""
        while more := sock.recv(65536):
            now, data = time.time(), data + more
            while len(data) >= MESSAGE.size:
                out.write(f"{MESSAGE.unpack_from(data)[0]} {now:.6f}\n")
                data = data[MESSAGE.size :]


def capture(port, path, seconds):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    end = time.time() + seconds
    with open(path, "w") as out:
        while (left := end - time.time()) > 0:
            sock.settimeout(left)
            try:
                packet, (interface, protocol, kind, _, _) = sock.recvfrom(65536)
            except TimeoutError:
                return
            if protocol != ETH_P_IP:
                continue
            header = (packet[0] & 15) * 4
            if packet[9] != IPPROTO_TCP or struct.unpack_from("!H", packet, header)[0] != port:
                continue
            place = {("wired0", PACKET_HOST): "in", ("wlan0", PACKET_OUTGOING): "out"}.get((interface, kind))
            if place:
                number, sequence = struct.unpack_from("!H", packet, 4)[0], struct.unpack_from("!I", packet, header + 4)[0]
                out.write(f"{place} {number} {sequence}\n")


command, arguments = sys.argv[1], sys.argv[2:]
if command == "serve":
    serve(int(arguments[0]), float(arguments[1]))
elif command == "fetch":
    fetch(arguments[0], int(arguments[1]), arguments[2])
else:
    capture(int(arguments[0]), arguments[1], float(arguments[2]))
