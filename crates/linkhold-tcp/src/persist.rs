//! The peer's window: which updates count, and the probing of a closed one.
//!
//! Source: RFC 9293 sections 3.10.7.4 (SND.WL1, SND.WL2) and 3.8.6.1 (zero-window probing); Linux
//! `tcp_may_update_window`.
//! Deviation: RFC 9293 also takes an update that repeats sequence and acknowledgment number and shrinks the
//! window. Linux (and BSD) ignore such a shrink; since 6.6 Linux takes it if the window is zero
//! (`accept_window_shrink_same_ack`). That decides whether a zero window sent by a base station is obeyed.

use linkhold_core::time::Duration;
use linkhold_core::units::Seq;

#[derive(Clone, Debug)]
pub(crate) struct SendWindow {
    /// SND.WND, bytes.
    window: u64,
    /// Largest window ever offered, for silly-window avoidance.
    largest: u64,
    /// SND.WL1.
    wl1: Seq,
    /// SND.WL2 as an offset into the stream.
    wl2: u64,
    accept_shrink_same_ack: bool,
    /// Consecutive probes without the window opening.
    probes: u32,
}

/// What an ACK did to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowChange {
    None,
    /// It was open before and is open now, with another size.
    Moved,
    /// It became zero.
    Closed,
    /// It was zero.
    Opened,
}

impl SendWindow {
    pub fn new(accept_shrink_same_ack: bool) -> Self {
        Self { window: 0, largest: 0, wl1: Seq(0), wl2: 0, accept_shrink_same_ack, probes: 0 }
    }

    /// The handshake's window.
    pub fn open(&mut self, window: u64, seq: Seq, ack: u64) {
        self.window = window;
        self.largest = self.largest.max(window);
        self.wl1 = seq;
        self.wl2 = ack;
    }

    /// An acceptable ACK of `ack` arrived in a segment with sequence number `seq`.
    #[inline]
    pub fn update(&mut self, seq: Seq, ack: u64, window: u64) -> WindowChange {
        let newer = ack > self.wl2
            || seq.after(self.wl1)
            || (seq == self.wl1
                && ack == self.wl2
                && (window > self.window || (self.accept_shrink_same_ack && window == 0)));
        if !newer || ack < self.wl2 {
            return WindowChange::None;
        }
        self.wl1 = seq;
        self.wl2 = ack;
        if window == self.window {
            return WindowChange::None;
        }
        let before = core::mem::replace(&mut self.window, window);
        if window == 0 {
            return WindowChange::Closed;
        }
        self.largest = self.largest.max(window);
        self.probes = 0;
        if before == 0 { WindowChange::Opened } else { WindowChange::Moved }
    }

    #[inline]
    pub fn window(&self) -> u64 {
        self.window
    }

    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// How long to wait for the next probe. RFC 9293 section 3.8.6.1: the first after an RTO, then
    /// exponentially rarer.
    pub fn probe_interval(&self, rto: Duration, ceiling: Duration) -> Duration {
        (rto * (1 << self.probes.min(16))).min(ceiling)
    }

    pub fn probed(&mut self) {
        self.probes += 1;
    }

    pub fn reset_probes(&mut self) {
        self.probes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_updates_count() {
        // (seq, ack, window, window after: old rule, window after: Linux 6.6); start is seq 100, ack 50,
        // window 1000.
        let table = [
            (100, 51, 0, 0, 0, "a newer ack closes"),
            (101, 50, 0, 0, 0, "newer data closes"),
            (100, 50, 2000, 2000, 2000, "the same ack may open"),
            (100, 50, 500, 1000, 1000, "the same ack may not shrink"),
            (100, 50, 0, 1000, 0, "the same ack closes since Linux 6.6 only"),
            (100, 49, 3000, 1000, 1000, "an older ack says nothing"),
            (99, 50, 3000, 1000, 1000, "older data says nothing"),
        ];
        for (seq, ack, window, old, new, what) in table {
            for (flag, expected) in [(false, old), (true, new)] {
                let mut w = SendWindow::new(flag);
                w.open(1000, Seq(100), 50);
                let change = w.update(Seq(seq), ack, window);
                assert_eq!(w.window(), expected, "{what} ({flag})");
                assert_eq!(change != WindowChange::None, expected != 1000, "{what} ({flag})");
                assert_eq!(change == WindowChange::Closed, expected == 0, "{what} ({flag})");
            }
        }
    }

    #[test]
    fn probes_get_rarer_up_to_the_ceiling_and_an_open_window_starts_over() {
        let mut w = SendWindow::new(true);
        w.open(0, Seq(0), 0);
        let (rto, ceiling) = (Duration::from_millis(200), Duration::from_secs(1));
        let mut waits = Vec::new();
        for _ in 0..4 {
            waits.push(w.probe_interval(rto, ceiling).as_millis());
            w.probed();
        }
        assert_eq!(waits, [200, 400, 800, 1000]);
        w.update(Seq(0), 0, 10);
        assert_eq!(w.probe_interval(rto, ceiling), rto);
    }
}
