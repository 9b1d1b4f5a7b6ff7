#!/usr/bin/env python3
"""Packets through the air, so that silences show at the stations.

send HOST PORT SECONDS: 200 packets a second, numbered and stamped.
recv PORT FILE SECONDS: one line a packet: number, sent, received (wall clock, seconds).
"""

import socket
import struct
import sys
import time

INTERVAL = 0.005


def send(host, port, seconds):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((host, port))
    due = time.time()
    end = due + seconds
    number = 0
    while due < end:
        try:
            sock.send(struct.pack("!Id", number, time.time()) + b"x" * 88)
        except OSError:
            pass  # The interface may be down: the packet is lost, which the receiver sees.
        number += 1
        due += INTERVAL
        time.sleep(max(0, due - time.time()))


def recv(port, path, seconds):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("0.0.0.0", port))
    end = time.time() + seconds
    with open(path, "w") as out:
        while (left := end - time.time()) > 0:
            sock.settimeout(left)
            try:
                number, sent = struct.unpack("!Id", sock.recv(2048)[:12])
            except OSError:
                return
            out.write(f"{number} {sent:.6f} {time.time():.6f}\n")


if sys.argv[1] == "send":
    send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
else:
    recv(int(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
