#!/usr/bin/env python3
"""Runs the commands of docs/router.md and others that need root, and compares what they show with what the pages say.

    try_router_page.py PATH-OF-LINKHOLD

A code block after a comment `<!-- try NAME -->` is run: the lab in network namespaces named lab-*, the agent in it, a flow with
silences, signals, the socket, a recording and its replay, and the removal of a killed agent's rules; each configuration is checked.
Then docs/host.md's choice of a congestion control, where the program has them, and the testbed's commands of README.md and
docs/testbed/README.md, shortened as the comments before them say. Needs root, `ip`, `iperf3` and NFQUEUE; without
them it skips and says why. The control socket is the page's own, /run/linkhold/agent.sock. Blocks named otherwise need no lab:
scripts/try_pages.py runs these.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from page_blocks import ROOT, Directives, Wrong, blocks, sum_of

PAGE, HOST_PAGE = ROOT / "docs" / "router.md", ROOT / "docs" / "host.md"
TESTBED_PAGES = (ROOT / "README.md", ROOT / "docs" / "testbed" / "README.md")
# What scripts/try_pages.py runs.
NEED_NO_LAB = ("commands", "file", "scenario")
SOCKET = pathlib.Path("/run/linkhold/agent.sock")
NAMESPACES = ("lab-ch", "lab-bs", "lab-sh")
# A congestion window of 10 segments is that of a new connection, kB.
COLLAPSED = 14.0
# No block takes this long, s. On a busy machine the testbed makes a late run again, up to six times and in the end alone.
TIME_LIMIT, TESTBED_LIMIT = 60, 900
# What the testbed says of runs without a result, and of those that it refused since this machine was late.
NO_RESULT, REFUSED = re.compile(r"^case .*, seed \d+: ", re.MULTILINE), re.compile(r"this host was too (slow|busy): ")


def skip_reason():
    if os.geteuid() != 0:
        return "it needs root"
    for program in ("ip", "iperf3", "python3"):
        if not shutil.which(program):
            return f"`{program}` is not installed"
    trial = subprocess.run(["ip", "netns", "add", "lab-try"], capture_output=True, text=True)
    if trial.returncode:
        return f"no network namespace can be made: {trial.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", "lab-try"], check=True)
    taken = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.split()
    if set(taken) & set(NAMESPACES):
        return "a lab is there already (lab-ch, lab-bs or lab-sh)"
    # A killed agent leaves its socket behind; only a live one answers.
    with socket.socket(socket.AF_UNIX) as trial:
        if trial.connect_ex(str(SOCKET)) == 0:
            return f"an agent runs on this machine ({SOCKET})"
    return None


class Skipped(Exception):
    """Why a block was not run, or shows nothing here."""


class Lab:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        (folder / "bin").mkdir()
        (folder / "bin" / "linkhold").symlink_to(program)
        search = f"{folder / 'bin'}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        self.environment = {**os.environ, "PATH": search}
        self.agent, self.agent_command = None, None

    def run(self, text):
        """What a block prints. Its own background programs end with it."""
        # `kill %1` and `wait` want job control's numbers, which a script has with -m.
        done = subprocess.run(
            ["bash", "-m", "-e", "-o", "pipefail", "-c", text], cwd=self.folder, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT,
        )  # fmt: skip
        if done.returncode:
            raise Wrong(f"exit status {done.returncode}:\n{text}\n{done.stdout}")
        return done.stdout

    def linkhold(self, *args):
        return subprocess.run(
            [self.program, *args], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=TIME_LIMIT
        )

    def start_agent(self, text):
        log = open(self.folder / "agent.out", "w")
        words = self.agent_command = text.split()
        self.agent = subprocess.Popen(words, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        for _ in range(200):
            if self.linkhold("status").returncode == 0:
                return
            time.sleep(0.05)
        raise Wrong(f"the agent does not start:\n{(self.folder / 'agent.out').read_text()}")

    def stop_agent(self):
        if self.agent is None:
            return
        self.agent.send_signal(signal.SIGTERM)
        self.agent.wait(timeout=10)
        if self.agent.returncode:
            raise Wrong(f"the agent ends with {self.agent.returncode}:\n{(self.folder / 'agent.out').read_text()}")
        self.agent = None

    def close(self):
        if self.agent is not None:
            self.agent.terminate()
            try:
                self.agent.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.agent.kill()
                self.agent.wait()
        for namespace in NAMESPACES:
            pids = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True).stdout.split()
            for pid in pids:
                os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)


def check_flow(text):
    """iperf3's table and the statuses in between, against the page's sentences."""
    rows = re.findall(r"^\[ *\d+\] +([\d.]+)-([\d.]+) +sec +[\d.]+ \wBytes +([\d.]+) Mbits/sec +(\d+) +([\d.]+) (\w)Bytes", text, re.M)
    if len(rows) < 8:
        raise Wrong(f"iperf3 shows {len(rows)} seconds:\n{text}")
    total = re.search(r"^\[ *\d+\] +0\.00-[\d.]+ +sec +[\d.]+ \wBytes +([\d.]+) Mbits/sec +(\d+) +sender", text, re.M)
    received = re.search(r"([\d.]+) Mbits/sec +receiver", text)
    if not total or not received:
        raise Wrong(f"iperf3 shows no sums:\n{text}")
    mean, retransmissions = float(received[1]), int(total[2])
    cwnd = [float(size) * {"K": 1, "M": 1024}[unit] for *_, size, unit in rows]
    silent = text.count(": silent")
    print(f"  {mean} Mb/s on average, {retransmissions} retransmissions in 3 silences, cwnd {cwnd[1]:g} to {cwnd[-1]:g} kB")
    if not 23.0 <= mean <= 25.0:
        raise Wrong(f"24 Mb/s are {mean}:\n{text}")
    # On a busy machine probes of segments that only wait come on top (RFC 8985, TLP), so there is no upper bound.
    if retransmissions < 3:
        raise Wrong(f"about 2 retransmissions for each of three silences are {retransmissions}:\n{text}")
    if cwnd[-1] < COLLAPSED:
        raise Wrong(f"cwnd collapses to {cwnd[-1]:g} kB:\n{text}")
    if silent != 3:
        raise Wrong(f"{silent} of 3 statuses say that the radio is silent:\n{text}")


def check_config(lab, text):
    file = lab.folder / "block.toml"
    smallest = "" if "wired =" in text else 'wired = ["eth0"]\nradio = ["wlan0"]\n'
    file.write_text(smallest + text + "\n")
    done = lab.linkhold("agent", "check", str(file))
    if done.returncode:
        raise Wrong(f"a configuration of the page is wrong: {done.stderr}")


def check_metrics(lab, text):
    """What Prometheus would read, of an agent with the port that the page's sentence gives it."""
    section = re.search(r"^With `(\[metrics\]) (listen = \"[\d.:]+\")`", PAGE.read_text(), re.M)
    if not section:
        raise Wrong("the page does not say how the metrics' port is chosen")
    if not shutil.which("curl"):
        raise Skipped("`curl` is not installed")
    lab.stop_agent()
    with (lab.folder / "agent.toml").open("a") as config:
        config.write("\n".join(["", *section.groups(), ""]))
    # The lab needs no loopback; a router has one.
    lab.run("ip -n lab-bs link set lo up")
    lab.start_agent(" ".join(lab.agent_command))
    said = lab.run(f"ip netns exec lab-bs bash -e -c {shlex.quote(text)}")
    if not re.search(r'^linkhold_\w+\{.*radio="radio0".*\} \d+$', said, re.M):
        raise Wrong(f"the metrics are:\n{said}")


def kill_and_remove_rules(lab, text):
    """The rules of an agent that was killed, which the page's commands remove."""
    lab.start_agent(" ".join(lab.agent_command))
    lab.agent.kill()
    lab.agent.wait()
    lab.agent = None

    def within(command):
        return lab.run(f"ip netns exec lab-bs bash -e -o pipefail -c {shlex.quote(command)}")

    if "linkhold" in within("nft list tables || true"):
        command = "nft delete table inet linkhold"
        if command not in PAGE.read_text():
            raise Wrong("the page does not say how nftables' rules are removed")
        within(command)
        if "linkhold" in within("nft list tables"):
            raise Wrong(f"{command} leaves the table")
        return
    for program in ("iptables", "ip6tables"):
        if "LINKHOLD-default" not in within(f"{program} -t mangle -S"):
            raise Wrong(f"a killed agent leaves no rules of {program}")
        within(text.replace("iptables", program))
        left = within(f"{program} -t mangle -S")
        if "LINKHOLD" in left:
            raise Wrong(f"rules are left:\n{left}")


def try_host_page(lab):
    """The choice of a congestion control, beside a host that is there; answers how many blocks were tried, and skipped."""
    todo = [block for block in blocks(HOST_PAGE) if block.name == "congestion"]
    (lab.folder / "host.toml").write_text('radio = ["eth0"]\n')
    log = open(lab.folder / "host.out", "w")
    command = ["ip", "netns", "exec", "lab-sh", lab.program, "host", "--config", "host.toml"]
    host = subprocess.Popen(command, cwd=lab.folder, env=lab.environment, stdout=log, stderr=log)
    try:
        there = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
        for _ in range(100):
            if "linkhold_cubic" in there.read_text() or host.poll() is not None:
                break
            time.sleep(0.05)
        if host.poll() is not None:
            raise Wrong(f"the host ends with {host.returncode}:\n{(lab.folder / 'host.out').read_text()}")
        if "linkhold_cubic" not in there.read_text():
            print("router page: docs/host.md: skipped: this program has no eBPF congestion controls")
            return 0, len(todo)
        for block in todo:
            print(f"router page: {block.name} of docs/host.md", flush=True)
            lab.run("ip netns exec lab-ch iperf3 -s -D -1")
            # It is back before its child listens.
            lab.run("for i in $(seq 100); do ip netns exec lab-ch ss -ltn | grep -q :5201 && break; sleep 0.1; done")
            text = block.text.replace("192.0.2.1", "10.91.1.2 -t 1")
            said = lab.run(f"ip netns exec lab-sh bash -e -c {shlex.quote(text)}")
            # The last line: without a terminal bash warns first.
            chosen = lab.run("ip netns exec lab-sh sysctl -n net.ipv4.tcp_congestion_control").split()[-1]
            if chosen != "linkhold_cubic" or not re.search(r"[1-9].*/sec +receiver", said):
                raise Wrong(f"docs/host.md: the congestion control is {chosen}:\n{said}")
        return len(todo), 0
    finally:
        host.send_signal(signal.SIGTERM)
        try:
            host.wait(timeout=10)
        except subprocess.TimeoutExpired:
            host.kill()
            host.wait()


def try_testbed(lab):
    """The testbed's commands, shortened; answers how many blocks did what their page says, and how many were skipped or undecided."""
    todo = [(page, block) for page in TESTBED_PAGES for block in blocks(page) if block.name == "testbed"]
    if lab.linkhold("doctor", "testbed").returncode:
        print("router page: testbed: skipped: `linkhold doctor testbed` says what is missing")
        return 0, len(todo)
    shutil.copytree(ROOT / "scenarios", lab.folder / "scenarios")
    done = sum(try_on_testbed(lab, page.relative_to(ROOT), block) for page, block in todo)
    return done, len(todo) - done


def try_on_testbed(lab, page, block):
    """Whether the block showed what its page says; False if the machine was too busy to tell."""
    print(f"router page: {block.name} of {page}", flush=True)
    told = Directives(block.directives)
    text = told.replaced(block.text)
    # Ctrl-C, since a testbed that is killed leaves its namespaces behind.
    limited = ["timeout", "--signal=INT", "--kill-after=30", str(TESTBED_LIMIT), "bash", "-e", "-o", "pipefail", "-c", text]
    done = subprocess.run(limited, cwd=lab.folder, env=lab.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    without = NO_RESULT.split(done.stdout)[1:]
    if done.returncode == 1 and without and all(REFUSED.match(reason) for reason in without):
        print(f"router page: {page}:{block.line} undecided: this machine was too busy for {len(without)} runs of the testbed")
        return False
    if done.returncode:
        raise Wrong(f"{page}:{block.line}: exit status {done.returncode}:\n{text}\n{done.stdout[-4000:]}")
    told.check_shown(text, done.stdout)
    return True


def status(lab):
    return json.loads(lab.linkhold("status", "--json").stdout)


def try_block(lab, name, text):
    if name == "config":
        check_config(lab, text)
    elif name == "agent":
        lab.start_agent(text)
    elif name == "flow":
        check_flow(lab.run(text))
    elif name == "signals":
        # The example's stations are the lab's.
        lab.run(text)
        now = status(lab)
        if now["channel"] != {"capacity_bps": 54_000_000, "efficiency": 0.6}:
            raise Wrong(f"the told rate is {now['channel']}")
        if now["silences_overdue"]:
            raise Wrong("a silence of the page is ended by nobody")
    elif name == "socket":
        said = lab.run(text)
        if '"ok":true' not in said:
            raise Wrong(f"the socket answers {said}")
    elif name == "watch":
        said = lab.run(text)
        if "linkhold.status/1" not in said or "linkhold default (dsasync)" not in said:
            raise Wrong(f"the status is {said}")
        if status(lab)["troubles"]:
            raise Wrong(f"the lab has troubles: {said}")
    elif name == "metrics":
        check_metrics(lab, text)
    elif name == "rules":
        kill_and_remove_rules(lab, text)
    elif name == "record":
        lab.stop_agent()
        said = lab.run(text)
        if not re.search(r"agent\.log: \d{4,} records of dsasync on radio0, every answer as recorded", said):
            raise Wrong(f"the replay says {said}")
    else:
        lab.run(text)


def try_blocks(lab, todo):
    """The blocks of docs/router.md; answers how many were tried, and how many skipped."""
    skipped = 0
    for block in todo:
        print(f"router page: {block.name}", flush=True)
        try:
            try_block(lab, block.name, block.text)
        except Skipped as why:
            print(f"  skipped: {why}")
            skipped += 1
    return len(todo) - skipped, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    options = parser.parse_args()
    try:
        todo = [block for block in blocks(PAGE) if block.name.split()[0] not in NEED_NO_LAB]
    except Wrong as error:
        print(f"router page: {PAGE.relative_to(ROOT)}: {error}", file=sys.stderr)
        return 1
    reason = skip_reason()
    if reason:
        print(f"router page: skipped: {reason}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(options.program.resolve(), pathlib.Path(folder))
        try:
            counts = [try_blocks(lab, todo)]
            lab.stop_agent()
            counts += [try_host_page(lab), try_testbed(lab)]
        except (Wrong, subprocess.TimeoutExpired) as error:
            print(f"router page: {PAGE.relative_to(ROOT)}: {error}", file=sys.stderr)
            return 1
        finally:
            lab.close()
    print(f"router page: {sum_of(counts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
