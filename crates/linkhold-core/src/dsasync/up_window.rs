//! What a station with uplink data is told of its correspondent's window.
//!
//! Beside the paper (`dsasync`). [`uplink_windows`](super::uplink_windows) says what it is told, and
//! when.

use core::cmp::Ordering;

use super::held::is_later;
use super::one_way::OneWay;
use super::probes::PROBE_LIFE;
use super::shares::Tally;
use crate::packet::TcpTimestamp;
use crate::time::{Duration, Instant};
use crate::units::Seq;

/// What a station with uplink data is told of its correspondent's window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UpWindow {
    /// The correspondent's latest window field, its shift if known, and its latest timestamp.
    pub offer: u16,
    pub shift: Option<u8>,
    pub timestamp: Option<TcpTimestamp>,
    /// Right edge of the windows that the station was told since its first data; `None`: it was told none.
    pub edge: Option<Seq>,
    /// When the station was last told a window.
    pub told: Instant,
    pub share: Tally,
    /// The newest timestamp that went down to the station, and one whose answer is still waited for.
    newest: Option<u32>,
    echo: Option<Echo>,
    /// How long its segments wait at the station.
    pub one_way: OneWay,
}

/// A timestamp that went down for the first time. Whatever the station sends after it came repeats it (RFC
/// 7323).
#[derive(Clone, Copy, Debug)]
struct Echo {
    value: u32,
    at: Instant,
    /// Silences of the station until then.
    silences: u64,
}

impl UpWindow {
    pub fn note(&mut self, now: Instant, ack: Seq, window: u16, shift: u8) {
        let edge = ack + (u32::from(window) << shift);
        self.edge = Some(self.edge.map_or(edge, |old| old.max(edge)));
        self.told = now;
    }

    /// A segment with this timestamp goes down. If one as new went down before, an answer may be under way
    /// already, and none is waited for. (The newest that has arrived may still be held.)
    pub fn begin_echo(&mut self, now: Instant, tick: Option<u32>, silences: u64) {
        let Some(value) = tick else { return };
        let is_new = self.newest.is_none_or(|newest| is_later(value, newest));
        if !is_new {
            return;
        }
        self.newest = Some(value);
        if self.echo.is_none_or(|echo| now.since(echo.at) > PROBE_LIFE) {
            self.echo = Some(Echo { value, at: now, silences });
        }
    }

    /// Data came up with this timestamp; the station has had `silences`. Returns the time since the timestamp
    /// that it repeats went down, if that is the one waited for and no silence lies between.
    pub fn end_echo(
        &mut self,
        now: Instant,
        timestamp: Option<TcpTimestamp>,
        silences: u64,
    ) -> Option<Duration> {
        let echo = self.echo?;
        let order = timestamp?.echo_against(echo.value);
        if order == Ordering::Less {
            return None;
        }
        self.echo = None;
        (order == Ordering::Equal && silences == echo.silences).then(|| now.since(echo.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens at a time, ms.
    #[derive(Clone, Copy)]
    enum Step {
        /// One comes from the correspondent, and is held.
        Arrives(u32),
        /// An ACK with this timestamp goes down.
        Down(u32),
        /// Data comes up that repeats this one.
        Up(u32),
        Silence,
    }
    use Step::{Arrives, Down, Silence, Up};

    #[test]
    fn a_local_round_trip_is_from_the_first_of_a_timestamp_to_its_first_answer() {
        const TOP: u32 = u32::MAX;
        const HALFWAY: u32 = (1 << 31) + 1000;
        type Row<'a> = (&'a [(u64, Step)], &'a [u64]);
        // (steps, times measured, ms)
        let rows: [Row<'_>; 9] = [
            (&[(0, Down(7)), (30, Up(7)), (31, Up(7)), (40, Down(9)), (65, Up(9))], &[30, 25]),
            // What repeats an older one was under way already.
            (&[(0, Down(7)), (5, Up(6)), (30, Up(7))], &[30]),
            // A second ACK with the same tick may be answered because of the first.
            (&[(0, Down(7)), (30, Up(7)), (31, Down(7)), (32, Up(7)), (33, Down(8)), (60, Up(8))], &[30, 27]),
            // Answered only with a later one: nothing is known of this one, and the next one is taken.
            (&[(0, Down(7)), (10, Down(8)), (35, Up(8)), (40, Down(9)), (60, Up(9))], &[20]),
            (&[(0, Down(7)), (10, Silence), (500, Up(7)), (600, Down(8)), (630, Up(8))], &[30]),
            // Never answered.
            (&[(0, Down(7)), (1500, Down(8)), (1530, Up(8))], &[30]),
            // What is held is not answered before it goes down.
            (
                &[
                    (0, Arrives(105)),
                    (0, Down(100)),
                    (20, Down(105)),
                    (25, Up(105)),
                    (30, Down(110)),
                    (35, Up(110)),
                ],
                &[5],
            ),
            // Timestamps wrap around, and what is old comes again.
            (&[(0, Down(TOP)), (20, Up(TOP)), (30, Down(3)), (31, Down(TOP)), (50, Up(3))], &[20, 20]),
            // In a pause the clock went more than halfway round.
            (&[(0, Down(7)), (30, Up(7)), (5000, Down(HALFWAY)), (5025, Up(HALFWAY))], &[30, 25]),
        ];
        for (number, (steps, expected)) in rows.iter().enumerate() {
            let (mut up, mut silences, mut measured) = (UpWindow::default(), 0, Vec::new());
            for &(ms, step) in *steps {
                let now = Instant::from_millis(1000 + ms);
                match step {
                    Arrives(value) => up.timestamp = Some(TcpTimestamp { value, echo: 0 }),
                    Down(value) => up.begin_echo(now, Some(value), silences),
                    Up(echo) => {
                        measured.extend(up.end_echo(now, Some(TcpTimestamp { value: 0, echo }), silences));
                    }
                    Silence => silences += 1,
                }
            }
            let expected: Vec<_> = expected.iter().map(|&ms| Duration::from_millis(ms)).collect();
            assert_eq!(measured, expected, "row {number}");
        }
    }
}
