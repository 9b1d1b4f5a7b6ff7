#!/usr/bin/env python3
"""A TCP flow of small segments through the agent, and what became of their order; and a paced flow of datagrams.

serve PORT SECONDS: a segment every 10 ms, numbered, to the first that connects.
fetch HOST PORT FILE: one line a segment: number, wall clock in seconds.
send HOST PORT NUMBERS SIZE INTERVAL: a datagram of SIZE bytes for each number of FIRST-LAST, every INTERVAL seconds.
receive PORT FILE LAST SECONDS: one line a datagram: number, wall clock when it was sent and when it came by the kernel's own time,
until LAST came or SECONDS are over. It answers one in ten, as an application does: a station that answers nothing shares a queue with others.
capture PORT FILE SECONDS: one line a packet of the flow: `in` from the wire or `out` to the air, IP identification,
sequence number.
air INTERFACE PORT PORT FILE: one line a datagram of `send` to one of the ports that this interface sends or
receives: `in` or `out`, port, number, the kernel's own time for it, so that it does not matter when this process
runs. It listens once FILE is there, and until it is killed.
"""

import ctypes
import signal
import socket
import struct
import sys
import time

INTERVAL = 0.01
MESSAGE = struct.Struct("!I92x")
DATAGRAM = struct.Struct("!Id")
# Sockets for one protocol alone do not see what goes out.
ETH_P_ALL, ETH_P_IP, PACKET_HOST, PACKET_BROADCAST, PACKET_OUTGOING = 0x0003, 0x0800, 0, 1, 4
# Python names none of these (asm-generic/socket.h).
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 26, 33, 35
# What nobody has read yet, of `air` more than all of a download's time. Of datagrams a usual buffer has room for some 92 (in
# the kernel each takes more than its bytes): 100 that are let go at once, or come after the machine stood still, overflow it.
AIR_BUFFER, DATAGRAMS_BUFFER = 1 << 24, 1 << 22


def stay_in_memory():
    """Pages of this program come over 9p when they are first needed, and one that the host owes would keep the process from the
    whole of a measurement. All that is mapped is read now."""
    # sys/mman.h: MCL_CURRENT | MCL_FUTURE.
    if ctypes.CDLL(None, use_errno=True).mlockall(3) != 0:
        raise OSError(ctypes.get_errno(), "mlockall")


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


def stamps(ancillary):
    """The kernel's own times for what it received, wall clock in seconds: one, if a socket asked for it."""
    times = [struct.unpack("@ll", data) for _, what, data in ancillary if what == SO_TIMESTAMPNS]
    return [seconds + nanoseconds / 1e9 for seconds, nanoseconds in times]


def send(host, port, numbers, size, interval):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # Who sends broadcasts hears them, and says nothing of a port that nobody has.
    sock.bind(("0.0.0.0", port))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    first, last = map(int, numbers.split("-"))
    due = time.time()
    for number in range(first, last + 1):
        sock.sendto(DATAGRAM.pack(number, time.time()).ljust(size, b"."), (host, port))
        due += interval
        time.sleep(max(0, due - time.time()))


def receive(port, path, last, seconds):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, DATAGRAMS_BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sock.bind(("0.0.0.0", port))
    number, end = None, time.time() + seconds
    with open(path, "w") as out:
        while number != last and (left := end - time.time()) > 0:
            sock.settimeout(left)
            try:
                data, ancillary, _, sender = sock.recvmsg(65536, 64)
            except TimeoutError:
                return
            (came,) = stamps(ancillary)
            number, sent = DATAGRAM.unpack_from(data)
            if number % 10 == 0:
                sock.sendto(b"here", sender)
            out.write(f"{number} {sent:.6f} {came:.6f}\n")


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
            if packet[9] != socket.IPPROTO_TCP or struct.unpack_from("!H", packet, header)[0] != port:
                continue
            place = {("wired0", PACKET_HOST): "in", ("wlan0", PACKET_OUTGOING): "out"}.get((interface, kind))
            if place:
                number, sequence = struct.unpack_from("!H", packet, 4)[0], struct.unpack_from("!I", packet, header + 4)[0]
                out.write(f"{place} {number} {sequence}\n")


def only_datagrams(sock, one, other):
    """Lets a packet socket receive nothing but datagrams to these two ports: a download beside them would wake its
    process a thousand times a second."""
    # linux/bpf_common.h: load a byte, load the header's length, load half a word behind it, jump if equal,
    # return.
    program = [
        (0x30, 0, 0, 9), (0x15, 0, 5, socket.IPPROTO_UDP), (0xB1, 0, 0, 0), (0x48, 0, 0, 2), (0x15, 1, 0, one),
        (0x15, 0, 1, other), (0x06, 0, 0, 0xFFFF), (0x06, 0, 0, 0),
    ]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", len(program), ctypes.addressof(code)))


def air(interface, ports, path):
    # A socket of no protocol hears nothing until it is bound, when its filter is there.
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    only_datagrams(sock, *ports)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, AIR_BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    # A signal that comes between Python's look for signals and the kernel's wait would be seen with the next datagram: with none,
    # if who sends them has ended before.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 1, 0))
    sock.bind((interface, ETH_P_ALL))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    lines = []
    with open(path, "w") as out:
        try:
            while True:
                try:
                    packet, ancillary, _, (_, protocol, kind, _, _) = sock.recvmsg(2048, 64)
                except BlockingIOError:
                    continue
                place = {PACKET_HOST: "in", PACKET_BROADCAST: "in", PACKET_OUTGOING: "out"}.get(kind)
                times = stamps(ancillary)
                if place and times and protocol == ETH_P_IP:
                    header = (packet[0] & 15) * 4
                    port, (number, _) = struct.unpack_from("!H", packet, header + 2)[0], DATAGRAM.unpack_from(packet, header + 8)
                    lines.append(f"{place} {port} {number} {times[0]:.6f}\n")
        finally:
            # Not before: the machine has other things to do.
            out.writelines(lines)


command, arguments = sys.argv[1], sys.argv[2:]
stay_in_memory()
if command == "serve":
    serve(int(arguments[0]), float(arguments[1]))
elif command == "fetch":
    fetch(arguments[0], int(arguments[1]), arguments[2])
elif command == "send":
    send(arguments[0], int(arguments[1]), arguments[2], int(arguments[3]), float(arguments[4]))
elif command == "receive":
    receive(int(arguments[0]), arguments[1], int(arguments[2]), float(arguments[3]))
elif command == "air":
    air(arguments[0], (int(arguments[1]), int(arguments[2])), arguments[3])
else:
    capture(int(arguments[0]), arguments[1], float(arguments[2]))
