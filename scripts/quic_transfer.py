#!/usr/bin/env python3
"""A QUIC download by aioquic: `serve` sends what is asked for, `fetch` asks for it and checks every byte.

Each prints one line of JSON at its end: what the server's recovery (RFC 9002) counted, and what the client got.
Needs aioquic (https://pypi.org/project/aioquic; 1.7.2 was used) in the Python that runs it. The namespace test
`a_quic_download_crosses_silences` runs both ends; LINKHOLD_QUIC_PYTHON names the Python.

    quic_transfer.py serve ADDRESS PORT [MS]
    quic_transfer.py fetch ADDRESS PORT BYTES

With MS, each datagram takes so many milliseconds longer to the server and from it: the path's round trip is longer by twice
that. (The development kernel has no netem.)
"""

import asyncio
import collections
import datetime
import functools
import hashlib
import json
import signal
import ssl
import sys
import tempfile
import time
from pathlib import Path

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.asyncio.server import QuicServer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import StreamDataReceived
from aioquic.quic.recovery import QuicPacketRecovery

COUNTS = {"ptos": 0, "lost": 0, "persistent": 0, "sent": 0, "received": 0}


def count_recovery():
    """Counts what the recovery of every connection of this process does; nothing of it is changed."""
    timeout, lost = QuicPacketRecovery.on_loss_detection_timeout, QuicPacketRecovery._on_packets_lost
    sending, receive = QuicConnection.datagrams_to_send, QuicConnection.receive_datagram

    def on_timeout(self, *, now):
        before = self._pto_count
        timeout(self, now=now)
        COUNTS["ptos"] += self._pto_count > before

    def on_lost(self, *, congestion_event=True, persistent_congestion=False, packets, **rest):
        packets = list(packets)
        if congestion_event:
            COUNTS["lost"] += len(packets)
            COUNTS["persistent"] += persistent_congestion
        lost(self, congestion_event=congestion_event, persistent_congestion=persistent_congestion, packets=packets, **rest)

    def to_send(self, now):
        datagrams = sending(self, now)
        COUNTS["sent"] += len(datagrams)
        return datagrams

    def received(self, data, addr, now):
        COUNTS["received"] += 1
        receive(self, data, addr, now)

    QuicPacketRecovery.on_loss_detection_timeout, QuicPacketRecovery._on_packets_lost = on_timeout, on_lost
    QuicConnection.datagrams_to_send, QuicConnection.receive_datagram = to_send, received


class Later:
    """Makes a call some seconds later; calls stay in order."""

    def __init__(self, call, seconds):
        self.call, self.seconds, self.waiting = call, seconds, collections.deque()

    def __call__(self, *args):
        self.waiting.append(args)
        asyncio.get_running_loop().call_later(self.seconds, self.next)

    def next(self):
        self.call(*self.waiting.popleft())


def lengthen_path(seconds):
    """The server sends and hears each datagram so many seconds later."""
    made, received = QuicServer.connection_made, QuicServer.datagram_received

    def connection_made(self, transport):
        transport.sendto = Later(transport.sendto, seconds)
        self.heard_later = Later(functools.partial(received, self), seconds)
        made(self, transport)

    def datagram_received(self, data, addr):
        self.heard_later(data, addr)

    QuicServer.connection_made, QuicServer.datagram_received = connection_made, datagram_received


def content(length):
    """The same bytes at both ends, no two packets alike."""
    block = b"".join(hashlib.sha256(n.to_bytes(4, "big")).digest() for n in range(2048))
    return (block * (length // len(block) + 1))[:length]


class Server(QuicConnectionProtocol):
    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived) and event.data:
            length = min(int(event.data), 1 << 28)
            self._quic.send_stream_data(event.stream_id, content(length), end_stream=True)
            self.transmit()


def certificate(folder):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "linkhold.test")])
    now = datetime.datetime.now(datetime.timezone.utc)
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    paths = [Path(folder) / "cert.pem", Path(folder) / "key.pem"]
    paths[0].write_bytes(cert.public_bytes(pem))
    paths[1].write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


async def run_server(address, port):
    config = QuicConfiguration(is_client=False, alpn_protocols=["linkhold"])
    with tempfile.TemporaryDirectory() as folder:
        config.load_cert_chain(*certificate(folder))
    await serve(address, port, configuration=config, create_protocol=Server)
    print("ready", flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    print(json.dumps(COUNTS), flush=True)


async def run_client(address, port, length):
    config = QuicConfiguration(is_client=True, alpn_protocols=["linkhold"], verify_mode=ssl.CERT_NONE)
    began = time.monotonic()
    async with connect(address, port, configuration=config) as client:
        reader, writer = await client.create_stream()
        writer.write(str(length).encode())
        writer.write_eof()
        got = await reader.read()
        seconds = time.monotonic() - began
        client.close()
    right = got == content(length)
    print(json.dumps({"seconds": seconds, "bytes": len(got), "right": right, "received": COUNTS["received"]}), flush=True)


def main():
    count_recovery()
    match sys.argv[1:]:
        case ["serve", address, port, *ms] if len(ms) < 2:
            if ms:
                lengthen_path(float(ms[0]) / 1e3)
            asyncio.run(run_server(address, int(port)))
        case ["fetch", address, port, length]:
            asyncio.run(run_client(address, int(port), int(length)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
