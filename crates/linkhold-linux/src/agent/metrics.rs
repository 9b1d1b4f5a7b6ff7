//! The status as Prometheus metrics: names `linkhold_*`, formatted by `metrics-exporter-prometheus`.
//!
//! Only its recorder is used; the text is served by the agent's own event loop, so there is no second thread
//! and no async runtime in a daemon that forwards packets.

use linkhold_core::metrics::{Counted, Kind, Metrics};
use metrics::{Key, KeyName, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::status::{MechanismStatus, RadioStatus, Status};

const METADATA: Metadata<'static> = Metadata::new("linkhold", Level::INFO, None);

/// Turns a status into the exposition format.
pub struct Exporter {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    instance: Label,
}

impl Exporter {
    /// An exporter for the agent of this name.
    #[must_use]
    pub fn new(instance: &str) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        Self { recorder, handle, instance: Label::new("instance", instance.to_owned()) }
    }

    /// The metrics' text.
    #[must_use]
    pub fn render(&self, status: &Status) -> String {
        self.gauge("linkhold_up_seconds", "Time since the agent's start", None, status.uptime_s);
        let troubles = status.troubles.len() as f64;
        self.gauge(
            "linkhold_troubles",
            "What keeps the agent from its work: see `linkhold status`",
            None,
            troubles,
        );
        for radio in &status.radios {
            self.render_radio(radio);
        }
        let counters = [
            ("linkhold_verdict_errors_total", "Verdicts the kernel refused", status.packets.verdict_errors),
            (
                "linkhold_inject_errors_total",
                "Acknowledgments that could not be sent",
                status.windows.inject_errors,
            ),
            ("linkhold_unparsed_total", "Packets passed unparsed", status.driver.unparsed),
            (
                "linkhold_copies_missing_total",
                "Copies that were wanted of packets which the kernel did not bring whole",
                status.driver.copies_missing,
            ),
            (
                "linkhold_nl80211_lost_total",
                "Times that the kernel dropped events of nl80211",
                status.nl80211.as_ref().map_or(0, |nl80211| nl80211.lost),
            ),
        ];
        for (name, description, value) in counters {
            self.count(name, description, [], value);
        }
        for (source, value) in &status.events {
            let label = Label::new("source", source.clone());
            self.count("linkhold_events_total", "Link events, by source", [label], *value);
        }
        for mechanism in &status.mechanisms {
            self.render_mechanism(mechanism);
        }
        self.handle.render()
    }

    fn render_radio(&self, radio: &RadioStatus) {
        let (packets, windows) = (&radio.packets, &radio.windows);
        let own = || Label::new("radio", radio.name.clone());
        let gauges = [
            ("linkhold_silences_now", "Silences under way", radio.silences_now as f64),
            (
                "linkhold_channel_capacity_bps",
                "Raw rate of the radio's channel, 0 if unknown",
                radio.channel.map_or(0.0, |channel| channel.capacity_bps as f64),
            ),
            (
                "linkhold_measured_bps",
                "Rate measured where nobody tells it, payload bits/s; 0: it is told, not known yet, or not measured",
                radio.measured_bps as f64,
            ),
            ("linkhold_flows", "Flows in the table", radio.flows as f64),
            ("linkhold_stations", "Stations that have a number now", radio.stations as f64),
            ("linkhold_held_packets", "Packets held now", packets.held as f64),
            ("linkhold_held_bytes", "Bytes held now", packets.held_bytes as f64),
            ("linkhold_held_bytes_peak", "Most bytes held at once", packets.held_bytes_peak as f64),
            ("linkhold_held_bytes_limit", "Most bytes that may be held now", packets.held_bytes_limit as f64),
            ("linkhold_windows_closed", "Flows whose window is closed now", windows.closed_now as f64),
        ];
        for (name, description, value) in gauges {
            self.gauge(name, description, Some(own()), value);
        }
        let counters = [
            ("linkhold_silences_total", "Periods of silence, of whatever causes", radio.silences),
            ("linkhold_silences_begun_total", "Silences begun or announced", radio.silences_begun),
            ("linkhold_silences_ended_total", "Silences that an event ended", radio.silences_ended),
            ("linkhold_silences_timed_total", "Silences that ended at a known time", radio.silences_timed),
            ("linkhold_silences_overdue_total", "Silences that nobody ended", radio.silences_overdue),
            (
                "linkhold_untracked_events_total",
                "Events of stations beyond those that are told apart; they did nothing",
                radio.untracked_events,
            ),
            ("linkhold_packets_total", "Packets that crossed the agent", packets.seen),
            ("linkhold_holds_total", "Packets held", packets.holds),
            ("linkhold_datagrams_total", "Datagrams of UDP among them", packets.datagrams),
            ("linkhold_datagram_holds_total", "Datagrams of UDP held", packets.datagram_holds),
            ("linkhold_releases_total", "Held packets released", packets.released),
            ("linkhold_copies_sent_total", "Copies of forwarded packets sent again", packets.copies_sent),
            ("linkhold_rewritten_total", "Packets rewritten in passing", packets.rewritten),
            ("linkhold_windows_closed_total", "Windows closed", windows.closed),
            ("linkhold_windows_reopened_total", "Windows reopened", windows.reopened),
            ("linkhold_windows_clamped_total", "Windows made smaller in passing", windows.clamped),
            ("linkhold_probes_answered_total", "Window probes answered", windows.probes_answered),
            ("linkhold_acks_injected_total", "Acknowledgments sent", windows.acks_injected),
        ];
        for (name, description, value) in counters {
            self.count(name, description, [own()], value);
        }
        let dropped = [
            ("buffer_full", packets.dropped_buffer_full),
            ("superseded", packets.dropped_superseded),
            ("flow_evicted", packets.dropped_flow_evicted),
            ("standing_queue", packets.dropped_standing_queue),
            ("repaired_here", packets.dropped_repaired_here),
            ("too_old", packets.dropped_too_old),
        ];
        for (reason, value) in dropped {
            let labels = [own(), Label::new("reason", reason)];
            self.count("linkhold_dropped_total", "Packets dropped, by reason", labels, value);
        }
    }

    /// Whatever a mechanism counts: over all radios, since `status` has it so.
    fn render_mechanism(&self, mechanism: &MechanismStatus) {
        let own = || Label::new("mechanism", mechanism.name.clone());
        for Counted { name, what, kind, .. } in Metrics::default().counted() {
            let Some(&value) = mechanism.counters.get(name) else { continue };
            match kind {
                Kind::Counter => {
                    self.count(format!("linkhold_mechanism_{name}_total"), what, [own()], value);
                }
                Kind::Gauge | Kind::Greatest => {
                    self.gauge(format!("linkhold_mechanism_{name}"), what, Some(own()), value as f64);
                }
            }
        }
    }

    fn gauge(&self, name: impl Into<KeyName>, description: &'static str, label: Option<Label>, value: f64) {
        let name = name.into();
        self.recorder.describe_gauge(name.clone(), None::<Unit>, description.into());
        self.recorder.register_gauge(&self.key(name, label), &METADATA).set(value);
    }

    fn count(
        &self,
        name: impl Into<KeyName>,
        description: &'static str,
        labels: impl IntoIterator<Item = Label>,
        value: u64,
    ) {
        let name = name.into();
        self.recorder.describe_counter(name.clone(), None::<Unit>, description.into());
        self.recorder.register_counter(&self.key(name, labels), &METADATA).absolute(value);
    }

    fn key(&self, name: KeyName, more: impl IntoIterator<Item = Label>) -> Key {
        let mut labels = vec![self.instance.clone()];
        labels.extend(more);
        Key::from_parts(name, labels)
    }
}
