#!/usr/bin/env python3
"""Measures what a silence costs a host's own sender, with and without `linkhold host`.

    sudo scripts/host_silence.py target/debug/linkhold [--silences 0.1,1,3] [--repeats 3]

Sender (with the radio) - router - receiver, in network namespaces of its own. The router forwards 20 Mbit/s out of a queue of
150 kB, and in a silence it drops everything. One connection sends without end; the silence begins 2 ms after the host is told
of it, and ends when it is told of that. Prints a table in Markdown: medians over the repeats.
"""

import argparse
import ctypes
import os
import socket
import statistics
import struct
import subprocess
import tempfile
import threading
import time

TCP_CONGESTION, TCP_INFO = 13, 11
CLONE_NEWNET = 0x40000000
# How the sender is frozen: (congestion control, `freeze` of the configuration or None for no host at all).
CASES = [
    ("cubic", None),
    ("cubic", "window"),
    ("linkhold_cubic", "kernel"),
    ("linkhold_cubic", "both"),
    ("linkhold_reno", "both"),
]


def sh(command):
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout


class Net:
    """Three namespaces in a line, gone in the end."""

    def __enter__(self):
        name = f"lhs{os.getpid()}"
        self.host, self.router, self.far = (name + end for end in "hrf")
        for netns in (self.host, self.router, self.far):
            sh(f"ip netns add {netns} && ip -n {netns} link set lo up")
        for netns, interface, side, net in ((self.host, "radio0", "rh", 1), (self.far, "eth0", "rf", 2)):
            sh(f"ip -n {netns} link add {interface} type veth peer name {side} netns {self.router}")
            sh(f"ip -n {netns} addr add 10.9.{net}.2/24 dev {interface} && ip -n {netns} link set {interface} up")
            sh(f"ip -n {self.router} addr add 10.9.{net}.1/24 dev {side} && ip -n {self.router} link set {side} up")
            sh(f"ip -n {netns} route add default via 10.9.{net}.1")
            # Packets of one flow in two processors' backlogs overtake each other.
            for place, device in ((netns, interface), (self.router, side)):
                sh(f"ip netns exec {place} sh -c 'for queue in /sys/class/net/{device}/queues/rx-*; do echo 1 > $queue/rps_cpus; done'")
        sh(f"ip netns exec {self.router} sysctl -qw net.ipv4.ip_forward=1")
        sh(f"tc -n {self.router} qdisc add dev rf root tbf rate 20mbit burst 5000 limit 150000")
        return self

    def __exit__(self, *_):
        for netns in (self.host, self.router, self.far):
            subprocess.run(["ip", "netns", "del", netns], check=False)

    def silence(self, silent):
        sh(f"ip netns exec {self.router} iptables -w -{'I' if silent else 'D'} FORWARD -j DROP")


def in_netns(netns, work):
    """Starts `work` on a thread in a namespace."""

    def run():
        with open(f"/run/netns/{netns}", "rb") as file:
            # os.setns came with Python 3.12; Debian 12 has 3.11.
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"enter {netns}")
        work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


class Connection:
    """A connection that sends as fast as it may."""

    def __init__(self, net, congestion):
        self.arrived, self.stop = [(time.monotonic(), 0)], False
        ready = threading.Event()
        listener = []

        def receive():
            with socket.socket() as server:
                server.bind(("10.9.2.2", 0))
                server.listen()
                listener.append(server.getsockname()[1])
                ready.set()
                peer, _ = server.accept()
                total = 0
                while data := peer.recv(1 << 16):
                    total += len(data)
                    self.arrived.append((time.monotonic(), total))

        def send():
            self.socket = socket.socket()
            self.socket.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, congestion.encode())
            self.socket.connect(("10.9.2.2", listener[0]))
            connected.set()
            try:
                while not self.stop:
                    self.socket.send(bytes(1 << 16))
            except OSError:
                pass

        in_netns(net.far, receive)
        ready.wait()
        connected = threading.Event()
        in_netns(net.host, send)
        connected.wait()

    def windows(self):
        """Congestion window and slow-start threshold, segments (struct tcp_info)."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 104)
        ssthresh, cwnd = struct.unpack_from("<II", info, 8 + 17 * 4)
        return cwnd, ssthresh

    def close(self):
        self.stop = True
        self.socket.shutdown(socket.SHUT_RDWR)


class Host:
    """`linkhold host` in the host's namespace."""

    def __init__(self, program, net, freeze):
        self.program, self.folder = program, tempfile.TemporaryDirectory()
        self.control = f"{self.folder.name}/sock"
        config = f"{self.folder.name}/host.toml"
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'radio = ["radio0"]\nradio_events = "none"\nfreeze = "{freeze}"\n[control]\nsocket = "{self.control}"\n')
        self.log = open(f"{self.folder.name}/log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(["ip", "netns", "exec", net.host, program, "host", "--config", config], stderr=self.log)
        for _ in range(500):
            if subprocess.run([program, "status", "--socket", self.control], capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.02)
        self.log.seek(0)
        raise SystemExit(f"the host does not start:\n{self.log.read()}")

    def tell(self, what):
        sh(f"{self.program} signal {what} --cause primary-user --socket {self.control}")

    def close(self):
        self.process.terminate()
        self.process.wait(10)


def measure(program, net, congestion, freeze, silence):
    """One run: windows before and just after, seconds until new data arrives, bytes in the second after the silence."""
    host = Host(program, net, freeze) if freeze else None
    connection = Connection(net, congestion)
    time.sleep(1.5)
    if host:
        host.tell("freeze")
    time.sleep(0.002)
    before = connection.windows()
    net.silence(True)
    time.sleep(silence)
    silent = connection.windows()
    net.silence(False)
    over, known = time.monotonic(), connection.arrived[-1][1]
    if host:
        host.tell("thaw")
    time.sleep(2.5)
    first = next(at - over for at, total in connection.arrived if at > over and total > known)
    second = max(total for at, total in connection.arrived if at <= over + 1) - known
    connection.close()
    if host:
        host.close()
    return {"before": before[0], "cwnd": silent[0], "ssthresh": silent[1] / before[1], "first": first * 1000, "kB": second / 1000}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the linkhold command, built with --features struct-ops")
    parser.add_argument("--silences", default="0.1,1,3", help="lengths, seconds")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    print("| silence | sender | freeze | cwnd before | cwnd at its end | ssthresh, share left | new data after, ms | kB in the next 1 s |")
    print("|---|---|---|---|---|---|---|---|")
    with Net() as net:
        for silence in map(float, args.silences.split(",")):
            for congestion, freeze in CASES:
                runs = [measure(args.program, net, congestion, freeze, silence) for _ in range(args.repeats)]
                median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
                print(
                    f"| {silence:g} s | {congestion} | {freeze or 'no host'} | {median['before']:.0f} | {median['cwnd']:.0f} | "
                    f"{median['ssthresh']:.2f} | {median['first']:.0f} | {median['kB']:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
