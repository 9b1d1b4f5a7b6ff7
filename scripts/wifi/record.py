#!/usr/bin/env python3
"""Records what nl80211 and rtnetlink tell, apart from linkhold's own reader: record.py FILE

One line a message: wall clock in seconds, `nl80211` or `link`, the message in hexadecimal. `check.py` takes this
file for the truth about when the radio said what; the recorded messages of the unit tests come from it, too.
A line `stall` says for how many seconds this process got no processor, and so how late the stamps may be.
"""

import select
import socket
import struct
import sys
import time

GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 3
SOL_NETLINK, NETLINK_ADD_MEMBERSHIP = 270, 1
RTMGRP_LINK = 1
TICK, STALL = 0.02, 0.003


def attributes(data):
    """Attributes of a netlink message as (type, value)."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return
        yield kind & 0x3FFF, data[4:length]
        data = data[(length + 3) & ~3 :]


def family(sock, name):
    """Number and multicast groups of a generic netlink family."""
    name = name.encode() + b"\0"
    payload = struct.pack("=BBHHH", CTRL_CMD_GETFAMILY, 1, 0, 4 + len(name), 2) + name
    sock.send(struct.pack("=IHHII", 16 + len(payload), GENL_ID_CTRL, 1, 1, 0) + payload)
    found = dict(attributes(sock.recv(65536)[20:]))
    groups = {}
    for _, group in attributes(found[7]):
        group = dict(attributes(group))
        groups[group[1].rstrip(b"\0").decode()] = struct.unpack("=I", group[2])[0]
    return struct.unpack("=H", found[1])[0], groups


def main():
    generic = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
    generic.bind((0, 0))
    number, groups = family(generic, "nl80211")
    for name in ("config", "mlme", "scan"):
        generic.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, groups[name])
    route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    route.bind((0, RTMGRP_LINK))
    with open(sys.argv[1], "w", buffering=1) as out:
        out.write(f"# nl80211 is family {number}\n")
        while True:
            before = time.time()
            ready = select.select([generic, route], [], [], TICK)[0]
            late = time.time() - before - TICK
            if late > STALL:
                out.write(f"{time.time():.6f} stall {late:.6f}\n")
            for sock in ready:
                data, now = sock.recv(65536), time.time()
                kind = "nl80211" if sock is generic else "link"
                out.write(f"{now:.6f} {kind} {data.hex()}\n")


main()
