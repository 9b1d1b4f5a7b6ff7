//! What varies in each figure, and its rows.

use linkhold_results::stats::Estimate;
use linkhold_results::{FigureRow, RunRecord};

use crate::figure::{metric_rows, row_of, rows_of};
use crate::grid::{Acks, Grid, Point, Variant};

/// The other scenario of `today`, beside the figure's own (DOCSIS).
const FIVE_G: &str = include_str!("../../../../reproductions/lookahead/today/5g.toml");

/// What is assumed of the paper's testbed; the claims are tested on it.
pub(super) const PAPER_STACK: &str = "Windows XP, 50 ms";

fn variant(stack: &str, set: &[&str]) -> Variant {
    Variant {
        stack: stack.to_owned(),
        direction: "downlink",
        set: set.iter().map(|&key| key.to_owned()).collect(),
        watches_acks: true,
        ..Variant::default()
    }
}

/// The first alone if it is to be quick.
fn all_or_first(quick: bool, all: Vec<Variant>) -> Vec<Variant> {
    all.into_iter().take(if quick { 1 } else { usize::MAX }).collect()
}

/// How a host delays its ACKs: name, and keys to change.
const ACK_STYLES: [(&str, &[&str]); 6] = [
    ("only at the ticks of 200 ms", &["tcp.delayed_ack=\"heartbeat-only 200ms\""]),
    ("every second segment or at a tick of 200 ms", &["tcp.delayed_ack=\"heartbeat 200ms\""]),
    ("every second segment or 200 ms after the first", &["tcp.delayed_ack=\"200ms\""]),
    ("every second segment or 40 ms after the first", &["tcp.delayed_ack=\"40ms\""]),
    ("Linux (quick ACKs, then 40 ms)", &["tcp.delayed_ack=\"linux\""]),
    ("every segment", &["tcp.delayed_ack=\"off\""]),
];

pub(super) fn ack_styles(quick: bool) -> Vec<Variant> {
    all_or_first(quick, ACK_STYLES.iter().map(|(name, set)| variant(name, set)).collect())
}

/// The p-quantile of sorted values.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let index = (p * sorted.len() as f64).ceil() as usize;
    sorted.get(index.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// How far apart the station's ACKs are.
pub(super) fn ack_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        let by_seed: Vec<Vec<f64>> = point
            .acks
            .iter()
            .map(|acks| {
                let mut sorted = acks.gaps.clone();
                sorted.sort_by(f64::total_cmp);
                sorted
            })
            .collect();
        let rows = |name: &str, unit: &str, of: &dyn Fn(&[f64]) -> f64| {
            let values: Vec<f64> = by_seed.iter().map(|gaps| of(gaps)).collect();
            row_of(variant, point, name, unit, &values)
        };
        let near = |gaps: &[f64]| {
            let near = gaps.iter().filter(|gap| (**gap - 0.2).abs() <= 0.01).count();
            near as f64 / gaps.len() as f64
        };
        vec![
            rows("time between ACKs, p10", "ms", &|gaps| 1e3 * quantile(gaps, 0.1)),
            rows("time between ACKs, median", "ms", &|gaps| 1e3 * quantile(gaps, 0.5)),
            rows("time between ACKs, p90", "ms", &|gaps| 1e3 * quantile(gaps, 0.9)),
            rows("share of them within 10 ms of 200 ms", "", &near),
        ]
    })
}

/// What the paper leaves open, each changed alone.
pub(super) fn assumptions(quick: bool) -> Vec<Variant> {
    let mut all = vec![variant(PAPER_STACK, &[])];
    for (name, key) in [
        ("Windows XP, 5 ms", "wired.rtt=\"5ms\""),
        ("Windows XP, 20 ms", "wired.rtt=\"20ms\""),
        ("Windows XP, 100 ms", "wired.rtt=\"100ms\""),
        ("Windows XP, 150 ms", "wired.rtt=\"150ms\""),
        ("Windows XP, 50 ms, window of 8,760 B", "tcp.receive_buffer=\"8760B\""),
        ("Windows XP, 50 ms, window of 64 KiB", "tcp.receive_buffer=\"64KiB\""),
        ("Windows XP, 50 ms, ACK every second segment too", "tcp.delayed_ack=\"heartbeat 200ms\""),
        ("Windows XP, 50 ms, p_s 0.5", "radio.grants.success=0.5"),
    ] {
        all.push(variant(name, &[key]));
    }
    all.push(variant(
        "Linux, 50 ms",
        &[
            "tcp.profile=\"linux\"",
            "tcp.congestion=\"cubic\"",
            "tcp.recovery=\"rack-tlp\"",
            "tcp.delayed_ack=\"linux\"",
            "tcp.receive_buffer=\"128KiB\"",
            "tcp.receive_autotune=\"6MiB\"",
        ],
    ));
    all_or_first(quick, all)
}

/// What the stream's application got, kbit/s.
pub(super) fn rate(run: &RunRecord) -> f64 {
    run.totals.goodput_bps / 1e3
}

/// From a station's wanting to send to the start of its turn, mean, ms.
fn access_delay(run: &RunRecord) -> f64 {
    run.link
        .uplink
        .as_ref()
        .and_then(|uplink| uplink.access_delay_mean_s)
        .map_or(f64::NAN, |delay| 1e3 * delay)
}

/// Share of the granted bytes that nobody used.
fn unused(run: &RunRecord) -> f64 {
    run.link.uplink.as_ref().map_or(f64::NAN, |uplink| {
        if uplink.granted_bytes == 0 { 0.0 } else { uplink.unused_bytes as f64 / uplink.granted_bytes as f64 }
    })
}

/// Granted bytes that nobody used, kbit/s of the uplink. They are counted as the flows' rates are: without
/// the warm-up.
fn unused_rate(run: &RunRecord) -> f64 {
    let counted_s = run.flows.iter().map(|flow| flow.active_s).fold(f64::NAN, f64::max);
    run.link.uplink.as_ref().map_or(f64::NAN, |uplink| uplink.unused_bytes as f64 * 8.0 / counted_s / 1e3)
}

/// Share of the requests made ahead whose packet did not come.
fn wrong(run: &RunRecord) -> f64 {
    run.mechanisms.first().map_or(f64::NAN, |ahead| {
        ahead.counter("uplink_requests_wrong") as f64 / ahead.counter("uplink_requests") as f64
    })
}

/// How long an ACK takes from its host to the correspondent, mean, ms.
fn ack_delay_row(variant: &Variant, point: &Point) -> Option<FigureRow> {
    let mean = |acks: &Acks| 1e3 * acks.delays.iter().sum::<f64>() / acks.delays.len() as f64;
    let by_seed: Vec<f64> = point.acks.iter().map(mean).collect();
    let known = by_seed.iter().all(|delay| delay.is_finite());
    known.then(|| row_of(variant, point, "delay of an ACK", "ms", &by_seed))
}

/// The rate over time on what is assumed of the paper's testbed; everything else as means.
pub(super) fn stream_rows(grid: &Grid) -> Vec<FigureRow> {
    let stalled = |run: &RunRecord| {
        run.flows.iter().filter_map(|flow| flow.media.as_ref()).map(|media| media.stalled_s).sum()
    };
    let mut rows = rows_of(grid, |variant, point| {
        let mut rows = metric_rows(
            variant,
            point,
            &[
                ("rate", "kbit/s", rate),
                ("time stalled", "s", stalled),
                ("random access delay", "ms", access_delay),
                ("unused share of what was granted", "", unused),
                ("wrong share of requests ahead", "", wrong),
            ],
        );
        rows.extend(ack_delay_row(variant, point));
        if variant.stack == PAPER_STACK {
            rows.extend(over_time(variant, point));
        }
        rows
    });
    let printed = [("udp", 1100.0), ("tcp", 450.0), ("look-ahead", 780.0), ("no-random-access", 780.0)];
    for (case, rate) in printed {
        let case = format!("{case} [{PAPER_STACK}]");
        for row in rows.iter_mut().filter(|row| row.case == case && row.metric == "downlink rate") {
            row.paper = Some(rate);
        }
    }
    rows
}

/// The rate in each interval of five seconds.
fn over_time(variant: &Variant, point: &Point) -> Vec<FigureRow> {
    const TOGETHER: usize = 5;
    let Some((_, first)) = point.runs.first() else { return Vec::new() };
    let intervals = first.router.t_s.chunks_exact(TOGETHER).enumerate();
    let at = |index: usize| {
        let means = point.runs.iter().map(|(_, series)| {
            let some = series.router.goodput_bps.iter().skip(index * TOGETHER).take(TOGETHER);
            some.sum::<f64>() / TOGETHER as f64 / 1e3
        });
        Estimate::of(&means.collect::<Vec<f64>>())
    };
    let row = |(index, times): (usize, &[f64])| {
        let estimate = at(index);
        let row = row_of(variant, point, "rate over time", "kbit/s", &[]);
        FigureRow { x: times.last().copied(), measured: estimate.mean, ci95: estimate.ci95, ..row }
    };
    intervals.map(row).collect()
}

/// One thing changed at a time: round trip, frame length, stations, p_s, N and how ACKs are delayed.
pub(super) fn sweep(quick: bool) -> Vec<Variant> {
    let mut all = vec![variant("nothing changed", &[])];
    for rtt in ["20ms", "50ms", "120ms", "140ms", "160ms", "200ms"] {
        all.push(variant(&format!("round trip {rtt}"), &[&format!("wired.rtt=\"{rtt}\"")]));
    }
    for frame in ["2ms", "2.5ms", "4ms", "8ms", "10ms", "12ms"] {
        all.push(variant(&format!("frame {frame}"), &[&format!("radio.grants.frame=\"{frame}\"")]));
    }
    // So many frames that 100 bytes for each station fit into their uplink subframes.
    for (stations, period) in [(2, 1), (5, 1), (10, 2), (20, 4), (50, 9)] {
        let unasked = format!(
            "cases.no-random-access.set={{\"radio.grants.proactive\"=\"100B\", \"radio.grants.proactive_period\"={period}}}"
        );
        let stations_key = format!("radio.stations={stations}");
        let set = [stations_key.as_str(), "flows.0.station=\"all\"", &unasked];
        all.push(variant(&format!("{stations} stations"), &set));
    }
    for success in ["0.9", "0.7", "0.5"] {
        all.push(variant(&format!("p_s {success}"), &[&format!("radio.grants.success={success}")]));
    }
    for n in [4, 6, 8, 9, 10, 12, 16, 24] {
        all.push(variant(&format!("N {n}"), &[&format!("cases.look-ahead.mechanism.n={n}")]));
    }
    for (name, set) in ACK_STYLES.iter().skip(1) {
        all.push(variant(&format!("ACK {name}"), set));
    }
    all_or_first(quick, all)
}

/// What looking ahead gains and costs.
pub(super) fn sweep_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        let mut rows = metric_rows(
            variant,
            point,
            &[
                ("rate", "kbit/s", rate),
                ("random access delay", "ms", access_delay),
                ("unused rate of what was granted", "kbit/s", unused_rate),
                ("wrong share of requests ahead", "", wrong),
            ],
        );
        rows.extend(ack_delay_row(variant, point));
        let plain = grid.points.iter().find(|other| other.variant == point.variant && other.case == "tcp");
        if let Some(plain) = plain.filter(|plain| plain.case != point.case) {
            let gains =
                point.values(rate).into_iter().zip(plain.values(rate)).map(|(one, other)| one / other);
            rows.push(row_of(variant, point, "rate over that of tcp", "", &gains.collect::<Vec<f64>>()));
        }
        rows
    })
}

/// DOCSIS (the figure's own scenario) and 5G.
pub(super) fn links_of_today(quick: bool) -> Vec<Variant> {
    let five_g = Variant { scenario: Some(FIVE_G), ..variant("5G", &[]) };
    all_or_first(quick, vec![variant("DOCSIS", &[]), five_g])
}

/// Mean time of a web page, ms.
fn page_time(run: &RunRecord) -> f64 {
    run.totals.web.as_ref().map_or(f64::NAN, |web| 1e3 * web.page_mean_s)
}

fn page_p95(run: &RunRecord) -> f64 {
    run.totals.web.as_ref().map_or(f64::NAN, |web| 1e3 * web.page_p95_s)
}

pub(super) fn today_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        let mut rows = metric_rows(
            variant,
            point,
            &[
                ("page time, mean", "ms", page_time),
                ("page time, p95", "ms", page_p95),
                ("random access delay", "ms", access_delay),
                ("unused rate of what was granted", "kbit/s", unused_rate),
                ("unused share of what was granted", "", unused),
                ("wrong share of requests ahead", "", wrong),
            ],
        );
        rows.extend(ack_delay_row(variant, point));
        rows
    })
}
