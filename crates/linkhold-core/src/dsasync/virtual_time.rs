//! Who has had no more than an equal part: virtual time as in start-time fair queueing (Goyal, Vin and Cheng
//! 1996).
//!
//! RFC 8290 section 4.2 serves a queue first that comes back after it ran empty. A bulk flow with a window of
//! two segments runs empty all the time, so that with 16 of them nobody is first. Here a queue is new only if
//! it has had no more than its part lately: virtual time grows by `bytes served / members`, and each member's
//! tag by the bytes that it was served itself. Sees whose queue comes into use, is served and runs empty;
//! answers whether it is new.
//!
//! A member counts while it has something to send, and after that until virtual time has reached its tag:
//! otherwise members that seldom have something would make virtual time run too fast, and could starve the
//! others one after the other.
//!
//! Deviation: when a member ceases to count is known only to within [`TICK`], and lies at most [`TICKS`] of
//! them ahead, so that no sorted list is needed.

/// Tags and virtual time are in parts of a byte, this many bits of them.
const FRACTION: u32 = 8;

/// Bits of the parts of a byte in a tick, which is 256 bytes.
const TICK: u32 = 8 + FRACTION;

/// Members that hold nothing are known to count for this many ticks at most: five full packets.
const TICKS: usize = 32;

/// How far the tag of a member may be ahead of virtual time, quanta. A member that was served alone need not
/// atone for it long.
const AHEAD: u64 = 4;

/// What is known of a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    /// The virtual time at which what the member was served is its equal part.
    until: u64,
    /// The tick at which it ceases to count, if it has nothing to send and that is still to come.
    ceases: u64,
}

impl Tag {
    pub const NEW: Self = Self { until: 0, ceases: 0 };
}

/// The virtual time of queues, or stations, that share.
#[derive(Clone, Debug)]
pub(super) struct VirtualTime {
    now: u64,
    /// Members that have something to send, and members that count beside them.
    members: u32,
    /// How many cease to count at each of the ticks to come.
    ceasing: [u32; TICKS],
}

impl Default for VirtualTime {
    fn default() -> Self {
        Self { now: 0, members: 0, ceasing: [0; TICKS] }
    }
}

/// The place of a tick.
fn place(tick: u64) -> usize {
    (tick % TICKS as u64) as usize
}

impl VirtualTime {
    /// A member has something to send again. True if it is new: it has had no more than its part.
    pub fn begin(&mut self, tag: &Tag) -> bool {
        if tag.ceases > self.now >> TICK {
            self.ceasing[place(tag.ceases)] -= 1;
        } else {
            self.members += 1;
        }
        tag.until <= self.now
    }

    /// A member has nothing left to send.
    pub fn end(&mut self, tag: &mut Tag) {
        let now = self.now >> TICK;
        // Not before what it was served is its part.
        tag.ceases = tag.until.div_ceil(1 << TICK).min(now + TICKS as u64 - 1);
        if tag.ceases > now {
            self.ceasing[place(tag.ceases)] += 1;
        } else {
            self.members -= 1;
        }
    }

    /// A member is served `len` bytes, of a quantum that is at least as long.
    #[inline]
    pub fn serve(&mut self, tag: &mut Tag, len: u32, quantum: u32) {
        let most = self.now + ((AHEAD * u64::from(quantum)) << FRACTION);
        tag.until = (tag.until.max(self.now) + (u64::from(len) << FRACTION)).min(most);
        if self.members <= 1 {
            // It is alone: nobody is about to cease to count.
            self.now += u64::from(len) << FRACTION;
            return;
        }
        let before = self.now >> TICK;
        self.now += (u64::from(len) << FRACTION) / u64::from(self.members);
        let after = self.now >> TICK;
        if before < after {
            self.pass(before, after);
        }
    }

    #[inline(never)]
    fn pass(&mut self, before: u64, after: u64) {
        for tick in (before + 1..=after).take(TICKS) {
            self.members -= core::mem::take(&mut self.ceasing[place(tick)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM: u32 = 1514;

    /// A member has one packet, which is served at once; true if it was new.
    fn pass_one(time: &mut VirtualTime, tag: &mut Tag, len: u32) -> bool {
        let is_new = time.begin(tag);
        time.serve(tag, len, QUANTUM);
        time.end(tag);
        is_new
    }

    #[test]
    fn a_thin_member_stays_new_and_members_that_run_empty_all_the_time_do_not() {
        let (mut time, mut bulk, mut thin) = (VirtualTime::default(), [Tag::NEW; 16], Tag::NEW);
        let (mut new, mut packets) = (0, 0);
        for round in 0..1000 {
            for tag in &mut bulk {
                new += u32::from(pass_one(&mut time, tag, 1500));
                packets += 1;
            }
            assert!(pass_one(&mut time, &mut thin, 200), "round {round}");
        }
        assert!(new <= packets / 50, "{new} of {packets}");
    }

    #[test]
    fn members_that_come_the_moment_they_are_new_do_not_starve_another() {
        for others in [1, 4, 16, 64] {
            let (mut time, mut waiting, mut tags) =
                (VirtualTime::default(), Tag::NEW, vec![Tag::NEW; others]);
            time.begin(&waiting);
            let mut served = 0;
            for step in 0..10_000 {
                let index = step % others;
                let new = (0..others).map(|n| (index + n) % others).find(|&n| tags[n].until <= time.now);
                match new {
                    Some(n) => assert!(pass_one(&mut time, &mut tags[n], 1500)),
                    None => {
                        time.serve(&mut waiting, 1500, QUANTUM);
                        served += 1;
                    }
                }
            }
            let part = 10_000 / (others + 1);
            assert!(served >= part * 4 / 5, "{served} of {part} beside {others}");
        }
    }

    #[test]
    fn nobody_is_counted_twice_or_for_ever() {
        let (mut time, mut waiting) = (VirtualTime::default(), Tag::NEW);
        time.begin(&waiting);
        let mut tags = [Tag::NEW; 8];
        for step in 0..1000 {
            pass_one(&mut time, &mut tags[step * 5 % 8], 1 + step as u32 * 37 % 9000);
            assert!((1..=9).contains(&time.members), "{}", time.members);
        }
        for _ in 0..100 {
            time.serve(&mut waiting, 1500, QUANTUM);
        }
        assert_eq!(time.members, 1);
    }
}
