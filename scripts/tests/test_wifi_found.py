"""What check.py finds of a host's signal and of a flow table in what guest.sh left, and when it keeps what it
found."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

WIFI = pathlib.Path(__file__).resolve().parent.parent / "wifi"
sys.path.insert(0, str(WIFI))

import check  # noqa: E402

STATION = "Station 02:00:00:00:00:00 (on wlan2)\n\tbeacon rx:\t388\n\tsignal:  \t{} dBm\n\tsignal avg:\t-29 dBm\n"
SURVEY = "Survey data from wlan2\n\tfrequency:\t\t\t2412 MHz{}\n\tnoise:\t\t\t\t-92 dBm\n"
SAMPLE = (
    '2026-11-26T11:33:{:09.6f}Z DEBUG linkhold_linux::agent::event_loop: link event radio="wlan2" source="snr" event=LinkEvent {{ detected_at: '
    "Instant(3674644357), effective_at: None, kind: Snr {{ station: StationId(0), db: {:.1f} }} }}"
)
# 11:33:00 of the samples' day.
NOON = 1795692780
TABLE = "the flow table fw4/ft takes flows of wired0, wlan0 past the firewall, so the agent sees only their first packets"
NO_TABLE = "ok      flow offload           no flow table takes flows past the agent"


def judged(judge, files, marks=()):
    """What `judge` found in these files, and its words."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (pathlib.Path(folder) / name).write_text(text if isinstance(text, str) else json.dumps(text))
        run, findings = check.Run.__new__(check.Run), check.Findings()
        run.folder, run.marks = pathlib.Path(folder), list(marks)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            judge(run, findings)
    return findings, said.getvalue()


class Signal(unittest.TestCase):
    MARKS = [(NOON + 1, "signal strong"), (NOON + 2, "signal strong was"), (NOON + 3, "signal weak"), (NOON + 4, "signal weak was")]

    def findings(self, strong=55, weak=35, in_use="", every=0.1, silences=1, counted=None):
        levels = [(number * every, strong if number * every < 2.5 else weak) for number in range(int(5 / every))]
        files = {
            "snr.txt": "\n".join(SAMPLE.format(second, db) for second, db in levels),
            "status-snr.json": {
                "events": {"snr": len(levels) if counted is None else counted}, "silences": silences, "windows": {"closed": silences},
            },
            **{f"iw-station-{strength}": STATION.format(signal) for strength, signal in (("strong", -30), ("weak", -50))},
            **{f"iw-survey-{strength}": SURVEY.format(in_use) for strength in ("strong", "weak")},
        }  # fmt: skip
        return judged(check.judge_signal, files, self.MARKS)

    def test_samples_that_are_as_iw_has_them_hold(self):
        found, said = self.findings()
        self.assertEqual(found.failed, 0, said)
        self.assertEqual(found.found["signal"], {"samples": 50, "ratios_db": {"strong": 55, "weak": 35}})

    def test_another_ratio_at_one_strength_does_not(self):
        for change in ({"strong": 56}, {"weak": 36}):
            self.assertEqual(self.findings(**change)[0].failed, 1, change)

    def test_the_noise_of_the_channel_in_use_counts(self):
        self.assertEqual(self.findings(in_use=" [in use]")[0].failed, 2)
        self.assertEqual(self.findings(strong=62, weak=42, in_use=" [in use]")[0].failed, 0)

    def test_a_few_samples_are_a_matter_of_time(self):
        found = self.findings(every=0.9)[0]
        self.assertEqual((found.failed, found.late), (0, 3))

    def test_a_gate_that_stood_open_and_samples_that_were_not_counted_do_not_hold(self):
        self.assertEqual(self.findings(silences=0)[0].failed, 2)
        self.assertEqual(self.findings(counted=0)[0].failed, 1)


class FlowTable(unittest.TestCase):
    def failed(self, **changed):
        files = {
            "doctor-flow-table": f"MISSING flow offload           {TABLE}\n", "doctor-no-flow-table": f"{NO_TABLE}\n",
            "status-flow-table.json": {"troubles": [TABLE]}, "status.json": {"troubles": []},
        }  # fmt: skip
        return judged(check.judge_flow_table, files | {name.replace("_", "-").replace("-json", ".json"): text for name, text in changed.items()})[0].failed

    def test_a_table_that_is_named_while_it_is_there_holds(self):
        self.assertEqual(self.failed(), 0)

    def test_one_that_is_not_named_or_is_named_for_ever_does_not(self):
        self.assertEqual(self.failed(doctor_flow_table=NO_TABLE), 1)
        for said in (TABLE, f"{TABLE}\n{NO_TABLE}"):
            self.assertEqual(self.failed(doctor_no_flow_table=said), 1)
        self.assertEqual(self.failed(status_json={"troubles": ["the radio is gone", TABLE]}), 1)
        self.assertEqual(self.failed(status_flow_table_json={"troubles": []}), 2)


class BesideRadar(unittest.TestCase):
    """A flow of 9 s with a radar at 3.2 s, whose silence lasts 0.45 s."""

    def late(self, delay, stalls=()):
        """Which bounds a flow misses whose datagrams take `delay` of the time at which they are sent."""
        datagrams = [(number, sent, sent + delay(sent)) for number, sent in enumerate(n * 0.002 for n in range(4500))]
        run, findings = check.Run.__new__(check.Run), check.Findings()
        run.marks, run.standstills = [(3.2, "radar")], check.merged((end - length, end) for end, length in stalls)
        run.datagrams = lambda _name: datagrams
        silence = ("wlan3", "PrimaryUser", check.Spoken(3.21, 3.21), check.Spoken(3.66, 3.66))
        with unittest.mock.patch.object(check, "silences_told", lambda _run: ([silence], 0)), contextlib.redirect_stdout(io.StringIO()):
            check.judge_beside_radar(run, findings)
        self.assertEqual(findings.failed, 0)
        return [what for what, _ in findings.broken]

    def test_a_flow_that_the_other_radio_leaves_alone_holds(self):
        self.assertEqual(self.late(lambda _sent: 0.005), [])

    def test_one_that_the_other_radios_silence_holds_does_not(self):
        held = self.late(lambda sent: 0.005 + max(3.66 - sent, 0) * (sent >= 3.21))
        self.assertEqual(len(held), 1)
        self.assertIn("during: 99th percentile of delay less standstills 4", held[0])

    def test_what_the_machine_stood_still_is_no_delay_and_what_it_did_not_is(self):
        standstill = lambda sent: 0.005 + max(6.12 - sent, 0) * (sent >= 6)
        self.assertEqual(self.late(standstill, [(6.12, 0.12)]), [])
        for stalls in ([], [(5.9, 0.12)], [(6.02, 0.02)]):
            (late,) = self.late(standstill, stalls)
            self.assertIn("after", late)

    def test_processors_that_stand_still_together_count_once(self):
        self.assertEqual(check.merged([(3, 5), (1, 2), (4, 6), (1.5, 2)]), [[1, 2], [3, 6]])
        run = check.Run.__new__(check.Run)
        run.standstills = [[1, 2], [3, 6]]
        self.assertEqual([run.stood_still(*times) for times in ((0, 1), (1.5, 4), (2, 3), (5, 9), (0, 9))], [0, 1.5, 0, 1, 4])


class Kept(unittest.TestCase):
    def kept(self, stalls=(), **judged_as):
        """What main() keeps of a run whose silences are judged so."""
        stubs = {name: lambda *_: None for name in dir(check) if name.startswith(("judge_", "note_"))}
        stubs["judge_silences"] = lambda _run, findings: findings.hold("it", **judged_as)
        with tempfile.TemporaryDirectory() as folder:
            run = unittest.mock.Mock(folder=pathlib.Path(folder), stalls=list(stalls), mark={"without": 0, "end": 100}.get, text=lambda _name: "6.1\n")
            with (
                unittest.mock.patch.multiple(check, Run=lambda _folder: run, **stubs),
                unittest.mock.patch.object(sys, "argv", ["check.py", folder]),
                contextlib.redirect_stdout(io.StringIO()),
                self.assertRaises(SystemExit) as ended,
            ):
                check.main()
            file = pathlib.Path(folder) / "findings.json"
            return ended.exception.code, json.loads(file.read_text()) if file.exists() else None

    def test_stalls_count_in_the_time_by_which_they_are_divided(self):
        # Before the mark "without", across it, in between, and across the end: 1 + 2 + 1 s of 100 s on two processors.
        stalls = [(-3, 5), (1, 4), (50, 2), (101, 2)]
        self.assertEqual(self.kept(stalls, holds=True), (0, {"kernel": "6.1", "still": 0.02}))

    def test_only_a_run_that_holds_is_kept(self):
        self.assertEqual(self.kept(holds=True), (0, {"kernel": "6.1", "still": 0.0}))
        self.assertEqual(self.kept(holds=False), (1, None))
        self.assertEqual(self.kept(holds=False, of_time=True), (4, None))


if __name__ == "__main__":
    unittest.main()
