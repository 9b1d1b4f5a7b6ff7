//! What `linkhold sense` prints: lines for people, or an object a line (`linkhold.sense/1`).

use std::fmt::Write;
use std::time::Duration;

use linkhold_results::Program;
use linkhold_sense::sensor::FOUND_WITH;
use linkhold_sense::{Calibrated, Event, Settings, Summary, to_db};
use nix::sys::signal::Signal;
use serde::Serialize;

use crate::program::program;

/// The name of the format of `--json`; its first line holds it.
const SCHEMA: &str = "linkhold.sense/1";

/// Writes what is seen of one input.
pub struct Report {
    pub json: bool,
    pub settings: Settings,
    /// Name of the samples' form.
    pub datatype: &'static str,
    /// Centre frequency, Hz.
    pub center: Option<f64>,
}

/// How the input was dealt with, besides what was in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handling {
    /// Samples at the end that filled no block.
    pub tail: u64,
    /// Time spent on samples, without waiting for them.
    pub working: Duration,
    /// From having read a block to having told what was in it, the longest.
    pub slowest: Duration,
    /// Freezes and thaws told; `None` without `--signal`.
    pub told: Option<u64>,
    /// Messages that nobody answered.
    pub failed: u64,
    /// The signal that ended a stream.
    pub stopped: Option<Signal>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Line {
    Calibrated {
        schema: &'static str,
        program: Program,
        at_s: f64,
        rate_hz: f64,
        datatype: &'static str,
        center_hz: Option<f64>,
        band_hz: Option<(f64, f64)>,
        block_s: f64,
        idle_s: f64,
        floor_dbfs: f64,
        floor_error_db: f64,
        threshold_dbfs: f64,
        false_alarm: f64,
        false_alarms_per_s: f64,
        false_alarm_exact_floor: f64,
        false_alarm_worst_floor: f64,
        least_snr_db: f64,
        snr_wall_db: Option<f64>,
    },
    Busy {
        at_s: f64,
        sample: u64,
        above_floor_db: f64,
    },
    Idle {
        at_s: f64,
        sample: u64,
        busy_since_s: f64,
        last_heard_s: f64,
        reason: &'static str,
    },
    Summary {
        samples: u64,
        duration_s: f64,
        tail_samples: u64,
        decisions: u64,
        blocks_above: u64,
        detections: u64,
        busy_s: f64,
        occupancy: f64,
        told: Option<u64>,
        told_failed: u64,
        /// The signal that ended the input; null where it ended by itself.
        stopped: Option<&'static str>,
        floor_dbfs: Option<f64>,
        threshold_dbfs: Option<f64>,
        false_alarm: Option<f64>,
        working_s: f64,
        slowest_block_s: f64,
    },
}

impl Report {
    fn seconds(&self, samples: u64) -> f64 {
        samples as f64 / self.settings.rate
    }

    /// An event, as a line with its end.
    pub fn event(&self, event: &Event, block: usize) -> String {
        if self.json { self.event_json(event, block) } else { self.event_text(event, block) }
    }

    fn event_json(&self, event: &Event, block: usize) -> String {
        let at = |samples| self.seconds(samples);
        to_line(&match *event {
            Event::Calibrated(Calibrated {
                at: sample,
                floor,
                threshold,
                false_alarm,
                false_alarm_exact,
                false_alarm_worst,
                least_snr_db,
                wall_db,
            }) => Line::Calibrated {
                schema: SCHEMA,
                program: program(),
                at_s: at(sample),
                rate_hz: self.settings.rate,
                datatype: self.datatype,
                center_hz: self.center,
                band_hz: self.settings.band,
                block_s: at(block as u64),
                idle_s: self.settings.idle.as_secs_f64(),
                floor_dbfs: to_db(floor.power),
                floor_error_db: to_db(1.0 + floor.error),
                threshold_dbfs: to_db(threshold),
                false_alarm,
                false_alarms_per_s: false_alarm / at(block as u64),
                false_alarm_exact_floor: false_alarm_exact,
                false_alarm_worst_floor: false_alarm_worst,
                least_snr_db,
                snr_wall_db: wall_db,
            },
            Event::Busy { at: sample, above_floor_db } => {
                Line::Busy { at_s: at(sample), sample, above_floor_db }
            }
            Event::Idle { at: sample, since, heard, input_over } => Line::Idle {
                at_s: at(sample),
                sample,
                busy_since_s: at(since),
                last_heard_s: at(heard),
                reason: if input_over { "input-over" } else { "t-idle" },
            },
        })
    }

    fn event_text(&self, event: &Event, block: usize) -> String {
        let at = |samples| self.seconds(samples);
        match *event {
            Event::Calibrated(known) => {
                let block_s = at(block as u64);
                let mut text = format!(
                    "{:>12.6} s  floor  {:.2} dBFS (±{:.3} dB) in {}, threshold {:.2} dBFS\n",
                    at(known.at),
                    to_db(known.floor.power),
                    to_db(1.0 + known.floor.error),
                    self.band(),
                    to_db(known.threshold)
                );
                let _ = writeln!(
                    text,
                    "{:15}false alarms: at most {:.1e} a block of {:.3} ms, {:.1e} a second, while the noise stays within \
                     {} dB; {:.1e} a block at the floor itself",
                    "",
                    known.false_alarm,
                    1e3 * block_s,
                    known.false_alarm / block_s,
                    self.settings.uncertainty_db,
                    known.false_alarm_exact,
                );
                let wall = known.wall_db.map_or(String::new(), |db| {
                    format!("; below {db:.1} dB no block is long enough with this uncertainty")
                });
                let _ = writeln!(
                    text,
                    "{:15}a block finds a signal of {:.1} dB SNR with probability {FOUND_WITH}{wall}",
                    "", known.least_snr_db
                );
                text
            }
            Event::Busy { at: sample, above_floor_db } => {
                format!("{:>12.6} s  busy   {above_floor_db:.1} dB above the floor\n", at(sample))
            }
            Event::Idle { at: sample, since, heard, input_over } => {
                let why = if input_over { "the input is over" } else { "T_idle" };
                format!(
                    "{:>12.6} s  idle   {why}; busy for {:.6} s, last heard at {:.6} s\n",
                    at(sample),
                    at(sample - since),
                    at(heard)
                )
            }
        }
    }

    fn band(&self) -> String {
        match self.settings.band {
            None => format!("all {} kHz", self.settings.rate / 1e3),
            Some((low, high)) => format!("{} to {} kHz", low / 1e3, high / 1e3),
        }
    }

    /// The end, as one or more lines.
    pub fn summary(&self, summary: &Summary, handling: &Handling) -> String {
        let decided = summary.decisions * summary.block as u64;
        let occupancy = if decided == 0 { 0.0 } else { summary.busy as f64 / decided as f64 };
        let working = handling.working.as_secs_f64();
        let known = summary.calibrated;
        if self.json {
            return to_line(&Line::Summary {
                samples: summary.samples,
                duration_s: self.seconds(summary.samples),
                tail_samples: handling.tail,
                decisions: summary.decisions,
                blocks_above: summary.above,
                detections: summary.detections,
                busy_s: self.seconds(summary.busy),
                occupancy,
                told: handling.told,
                told_failed: handling.failed,
                stopped: handling.stopped.map(Signal::as_str),
                floor_dbfs: known.map(|known| to_db(known.floor.power)),
                threshold_dbfs: known.map(|known| to_db(known.threshold)),
                false_alarm: known.map(|known| known.false_alarm),
                working_s: working,
                slowest_block_s: handling.slowest.as_secs_f64(),
            });
        }
        let mut text = format!(
            "{} samples, {:.6} s: {} detections, busy {:.1} % of the time after the calibration, each T_idle included\n\
             {} of {} blocks above the threshold ({:.1} %); {} samples at the end filled no block\n\
             {:.3} s of work ({:.1} million samples a second), at most {:.3} ms from a block to its line\n",
            summary.samples,
            self.seconds(summary.samples),
            summary.detections,
            100.0 * occupancy,
            summary.above,
            summary.decisions,
            100.0 * summary.above as f64 / summary.decisions.max(1) as f64,
            handling.tail,
            working,
            summary.samples as f64 / working.max(1e-9) / 1e6,
            1e3 * handling.slowest.as_secs_f64(),
        );
        if let Some(known) = known {
            let _ = writeln!(
                text,
                "floor {:.2} dBFS, threshold {:.2} dBFS, false alarms at most {:.1e} a block",
                to_db(known.floor.power),
                to_db(known.threshold),
                known.false_alarm
            );
        }
        if let Some(told) = handling.told {
            let _ =
                writeln!(text, "{told} freezes and thaws told, {} messages not answered", handling.failed);
        }
        if let Some(signal) = handling.stopped {
            let _ = writeln!(text, "stopped by {signal}: the input would have gone on");
        }
        text
    }
}

fn to_line(line: &Line) -> String {
    // These types hold numbers and texts alone; serde_json writes a number that is not finite as null.
    serde_json::to_string(line)
        .map_or_else(|error| format!("{{\"error\":\"{error}\"}}\n"), |text| text + "\n")
}
