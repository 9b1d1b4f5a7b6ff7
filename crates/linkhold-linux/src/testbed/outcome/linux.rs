//! What a run's record has under the key `linux`: what the contract has no word for.

use linkhold_results::stats::percentile;
use serde::{Deserialize, Serialize};

use super::super::host_load::HostLoad;
use super::super::kernel::Counters;
use super::super::seats::HostStatus;
use super::super::silence_story::SilenceStory;
use super::super::silence_summary::SilenceSummary;
use super::super::traffic::Completion;
use super::super::waits::DaemonStall;
use crate::agent::status::Status;

/// The key `linux` of a run: what the contract has no word for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinuxRecord {
    /// Congestion control of the senders.
    pub congestion: String,
    /// The case's name without it.
    pub case: String,
    /// Release of the kernel, as `uname -r` has it; `None` of a run from before it was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// What the senders' kernels counted from start to end.
    pub counters: Counters,
    /// How late edges of silences were handled, 99th percentile, s; 0 without silences.
    pub edge_late_p99_s: f64,
    /// How late all other events of the air were handled, 99th percentile, s.
    pub event_late_p99_s: f64,
    /// How long the hosts' programs, the agent or a `linkhold host` stood still for want of a processor, s:
    /// goodput and delay suffer from it although the air is punctual.
    #[serde(default)]
    pub stalled_s: f64,
    /// The agent and the hosts that did. Where several stood still at once, `stalled_s` has that time once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub daemon_stalls: Vec<DaemonStall>,
    /// What the host had to do besides.
    #[serde(default)]
    pub host: HostLoad,
    /// Packets that a port or the engine had no room for.
    pub overruns: u64,
    /// Time that downlink segments spent in the base station, an agent's holding included, s.
    pub transit_p50_s: Option<f64>,
    /// The same, 99th percentile, s.
    pub transit_p99_s: Option<f64>,
    /// How many times were measured from a silence's end to the first new data, over all flows and silences.
    pub resumes: u64,
    /// Median.
    pub resume_p50_s: Option<f64>,
    /// 99th percentile.
    pub resume_p99_s: Option<f64>,
    /// Sized flows; `None` if the scenario has none.
    pub completions: Option<Completions>,
    /// The window of the first flow of TCP before and after each silence.
    pub windows: Vec<SilenceWindow>,
    /// What each silence did to the first flow of TCP, of those that began after the warm-up and were over
    /// before the end.
    #[serde(default)]
    pub silences: Vec<SilenceStory>,
    /// When there was no more room to remember packets, s: silences that ended later have no story. `None`:
    /// there was to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silences_told_until_s: Option<f64>,
    /// The stories summed up; `None` where there was no silence, or no flow of TCP.
    #[serde(default)]
    pub silence_summary: Option<SilenceSummary>,
    /// Least and greatest receive window that senders heard of, bytes.
    pub send_window: Option<[u32; 2]>,
    /// Zero windows that reached the senders' hosts.
    pub zero_windows: u64,
    /// The agent's status at the end; `None` on the plain router.
    pub agent: Option<Status>,
    /// The status at the end of each `linkhold host`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostStatus>,
}

impl LinuxRecord {
    /// An empty record.
    #[cfg(test)]
    pub(in super::super) fn empty(congestion: &str, case: &str) -> Self {
        Self {
            congestion: congestion.to_owned(),
            case: case.to_owned(),
            kernel: None,
            counters: Counters::new(),
            edge_late_p99_s: 0.0,
            event_late_p99_s: 0.0,
            stalled_s: 0.0,
            daemon_stalls: Vec::new(),
            host: HostLoad::default(),
            overruns: 0,
            transit_p50_s: None,
            transit_p99_s: None,
            resumes: 0,
            resume_p50_s: None,
            resume_p99_s: None,
            completions: None,
            windows: Vec::new(),
            silences: Vec::new(),
            silences_told_until_s: None,
            silence_summary: None,
            send_window: None,
            zero_windows: 0,
            agent: None,
            hosts: Vec::new(),
        }
    }
}

/// How sized flows ended, as their applications saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completions {
    /// Flows that ended with the right bytes.
    pub finished: usize,
    /// Flows under way at the end of the run.
    pub unfinished: usize,
    /// Flows with wrong bytes.
    pub corrupt: u64,
    /// Median time from `connect` to the last byte, s.
    pub p50_s: Option<f64>,
    /// 99th percentile, s.
    pub p99_s: Option<f64>,
    /// Mean, s.
    pub mean_s: Option<f64>,
    /// Every one, s, by start.
    pub all_s: Vec<f64>,
}

impl Completions {
    pub(super) fn of(list: &[Completion], corrupt: u64) -> Self {
        let all_s: Vec<f64> = list.iter().filter_map(|one| one.took_s).collect();
        let (mut sorted, some) = (all_s.clone(), |value: f64| value.is_finite().then_some(value));
        Self {
            finished: all_s.len(),
            unfinished: list.len() - all_s.len(),
            corrupt,
            p50_s: some(percentile(&mut sorted, 0.5)),
            p99_s: some(percentile(&mut sorted, 0.99)),
            mean_s: some(all_s.iter().sum::<f64>() / all_s.len() as f64),
            all_s,
        }
    }
}

/// A sender around one silence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SilenceWindow {
    /// Start of the silence, s.
    pub start_s: f64,
    /// Its end, s.
    pub end_s: f64,
    /// Congestion window at its start, segments.
    pub cwnd_before: u32,
    /// At the earliest look more than a round trip after its end.
    pub cwnd_after: u32,
    /// Slow-start threshold at its start, segments; `None` while infinite.
    pub ssthresh_before: Option<u32>,
    /// As `cwnd_after`.
    pub ssthresh_after: Option<u32>,
    /// Least receive window heard of from its start until then, bytes.
    pub least_send_window: Option<u32>,
}
