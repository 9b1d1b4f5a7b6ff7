#!/usr/bin/env python3
"""Records what nl80211 tells, apart from linkhold's own reader:
  record.py FOLDER                        events, until it is killed
  record.py FOLDER --dumps INTERFACE      what it answers of an interface in this network namespace

Each processor of this machine has a recorder of its own, which writes FOLDER/record-N: one line a message, wall clock
in seconds and the message in hexadecimal. The recorded messages of the unit tests come from these files, too.

A recorder that waits for a processor is late. So the kernel's own trace of what leads to these messages is switched
on, too (guest.sh keeps it), and FOLDER/clock has the difference between the wall clock and the trace's. Between the
trace and the first recorder the radio spoke.

FOLDER/dumps-INTERFACE gets the datagrams of the station dump and of the survey dump, which a host's signal-to-noise ratio comes
from: one line each, which dump and the datagram in hexadecimal.

FOLDER/stalls gets a line for each time that a processor did not run a process of the agent's priority in time: when
that ended, for how many seconds.
"""

import os
import signal
import socket
import struct
import sys
import time

NETLINK_GENERIC, GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 16, 3
NLMSG_ERROR, NLMSG_DONE, NLM_F_REQUEST, NLM_F_DUMP = 2, 3, 0x001, 0x300
IFINDEX, DUMPS = 3, {"station": 17, "survey": 50}
SOL_NETLINK, NETLINK_ADD_MEMBERSHIP = 270, 1
TICK, STALL = 0.010, 0.003


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


def watch(processor, out):
    """Notes how long this processor keeps a process waiting."""
    os.sched_setaffinity(0, {processor})
    os.nice(-15)
    while True:
        due = time.time() + TICK
        time.sleep(TICK)
        now = time.time()
        if now - due > STALL:
            out.write(f"{now:.6f} {now - due:.6f}\n")


def record(processor, path):
    """Writes down every message, on this processor."""
    os.sched_setaffinity(0, {processor})
    os.nice(-20)
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
    sock.bind((0, 0))
    number, groups = family(sock, "nl80211")
    for name in ("config", "mlme", "scan"):
        sock.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, groups[name])
    with open(path, "w", buffering=1) as out:
        out.write(f"# nl80211 is family {number}\n")
        while True:
            data, now = sock.recv(65536), time.time()
            out.write(f"{now:.6f} {data.hex()}\n")


def dumps(interface, path):
    """Writes down what the kernel answers of an interface."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
    sock.bind((0, 0))
    # An answer that does not end fails here.
    sock.settimeout(5)
    number, _ = family(sock, "nl80211")
    index = socket.if_nametoindex(interface)
    with open(path, "w") as out:
        out.write(f"# nl80211 is family {number}, {interface} is interface {index}\n")
        for name, command in DUMPS.items():
            request = struct.pack("=BBHHHI", command, 0, 0, 8, IFINDEX, index)
            sock.send(struct.pack("=IHHII", 16 + len(request), number, NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + request)
            ended = False
            while not ended:
                data = sock.recv(65536)
                out.write(f"{name} {data.hex()}\n")
                while data:
                    length, kind = struct.unpack_from("=IH", data)
                    ended |= kind in (NLMSG_ERROR, NLMSG_DONE)
                    data = data[(length + 3) & ~3 :]


TRACING = "/sys/kernel/tracing"
TRACED = """cfg80211_ch_switch_started_notify cfg80211_ch_switch_notify rdev_scan cfg80211_scan_done cfg80211_ready_on_channel
cfg80211_ready_on_channel_expired rdev_change_virtual_intf rdev_stop_ap"""


def trace(folder):
    """Switches the kernel's trace on."""
    for name, value in [("trace_clock", "mono")] + [(f"events/cfg80211/{name}/enable", "1") for name in TRACED.split()]:
        with open(f"{TRACING}/{name}", "w") as file:
            file.write(value)
    with open(f"{folder}/clock", "w") as out:
        out.write(f"{time.time() - time.monotonic():.6f}\n")


def main():
    folder = sys.argv[1]
    if sys.argv[2:3] == ["--dumps"]:
        dumps(sys.argv[3], f"{folder}/dumps-{sys.argv[3]}")
        return
    trace(folder)
    stalls = open(f"{folder}/stalls", "a", buffering=1)
    for processor in sorted(os.sched_getaffinity(0)):
        if os.fork() == 0:
            watch(processor, stalls)
        if os.fork() == 0:
            record(processor, f"{folder}/record-{processor}")
    signal.pause()


if __name__ == "__main__":
    main()
