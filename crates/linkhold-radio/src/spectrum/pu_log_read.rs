//! Reads a PU log: `<i, x, y, spectrum, tpower>` for each PU, then `<i, arrival, departure>` for each burst.
//!
//! Source: crahn, section 4.1, which gives the tuples but neither units nor bytes; docs/pu-log.md says what
//! was chosen. A file that cannot be used is refused whole, with the first line that shows why.

use std::collections::BTreeMap;

use linkhold_core::time::Instant;

use crate::spectrum::bands::{Band, MAX_BANDS};
use crate::spectrum::fields::{Fields, Malformed, number, seconds, whole};
use crate::spectrum::pu_log::{Burst, MAX_BURSTS, MAX_USERS, PuLog, PuLogError, PuLogErrorKind, User};

/// The entries that there are, for messages.
const ENTRIES: &str = "<i, x, y, spectrum, tpower> and <i, arrival, departure>";
/// Farthest from the origin that a PU may be, m: more than once around the Earth.
const FARTHEST: f64 = 1e8;
/// Most transmit power, W.
const MOST_POWER: f64 = 1e9;

impl PuLog {
    /// Parses a log. `bands` is the number of bands that there are; `None` takes the highest that a PU names.
    ///
    /// # Errors
    /// [`PuLogError`] names the first line that cannot be used; of overlapping bursts, the later line.
    pub fn parse(bytes: &[u8], bands: Option<u16>) -> Result<Self, PuLogError> {
        Self::parse_bounded(bytes, bands, MAX_USERS, MAX_BURSTS)
    }

    fn parse_bounded(
        bytes: &[u8],
        bands: Option<u16>,
        most_users: usize,
        most_bursts: usize,
    ) -> Result<Self, PuLogError> {
        let mut reading = Reading { bands, ..Reading::default() };
        let mut last_line = 1;
        for (line, text) in (1_usize..).zip(bytes.split(|&byte| byte == b'\n')) {
            let line = u32::try_from(line).unwrap_or(u32::MAX);
            last_line = line;
            reading.read(line, text).map_err(|kind| PuLogError { line, kind })?;
            if reading.users.len() > most_users || reading.bursts.len() > most_bursts {
                return Err(PuLogError { line, kind: PuLogErrorKind::TooLong });
            }
        }
        if reading.users.is_empty() {
            return Err(PuLogError { line: last_line, kind: PuLogErrorKind::NoUser });
        }
        Self::new(reading.users, reading.bursts, bands.unwrap_or(0).min(MAX_BANDS))
    }
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    bands: Option<u16>,
    users: Vec<User>,
    bursts: Vec<Burst>,
    /// By identifier: index and line.
    known: BTreeMap<u32, (u32, u32)>,
    /// Identifier and index of the last burst's user: mostly that of the next as well.
    last: Option<(u32, u32)>,
}

impl Reading {
    fn read(&mut self, line: u32, text: &[u8]) -> Result<(), PuLogErrorKind> {
        let fields = Fields::<5>::of(text, ENTRIES).map_err(PuLogErrorKind::Malformed)?;
        match fields.as_slice() {
            [] => Ok(()),
            &[id, x, y, band, power] => self.read_user(line, [id, x, y, band, power]),
            &[id, arrival, departure] => self.read_burst(line, [id, arrival, departure]),
            other => Err(PuLogErrorKind::Malformed(Malformed::Count(other.len(), ENTRIES))),
        }
    }

    fn read_user(&mut self, line: u32, fields: [&str; 5]) -> Result<(), PuLogErrorKind> {
        let [id, x, y, band, power] = fields;
        let place = -FARTHEST..=FARTHEST;
        let id = identifier(id)?;
        let x = number("x", x, place.clone(), "a place in metres, from -1e8 to 1e8");
        let x = x.map_err(PuLogErrorKind::Malformed)?;
        let y = number("y", y, place, "a place in metres, from -1e8 to 1e8");
        let y = y.map_err(PuLogErrorKind::Malformed)?;
        let right = "the number of a band, from 1 to 1024";
        let band =
            whole("spectrum", band, 1..=u32::from(MAX_BANDS), right).map_err(PuLogErrorKind::Malformed)?;
        let power =
            number("tpower", power, f64::MIN_POSITIVE..=MOST_POWER, "a power in watts, above 0, up to 1e9");
        let power = power.map_err(PuLogErrorKind::Malformed)?;
        let number = u16::try_from(band).unwrap_or(MAX_BANDS);
        let bands = self.bands.unwrap_or(MAX_BANDS);
        let band = Band::new(number).filter(|_| number <= bands);
        let band = band.ok_or(PuLogErrorKind::UnknownBand(number, bands))?;
        if !self.bursts.is_empty() {
            return Err(PuLogErrorKind::UserAfterBurst);
        }
        let index = self.users.len() as u32;
        if let Some((_, first)) = self.known.insert(id, (index, line)) {
            return Err(PuLogErrorKind::Doubled(id, first));
        }
        self.users.push(User { id, x, y, band, power });
        Ok(())
    }

    fn read_burst(&mut self, line: u32, fields: [&str; 3]) -> Result<(), PuLogErrorKind> {
        let [id, arrival, departure] = fields;
        let id = identifier(id)?;
        let arrival = seconds("arrival", arrival).map_err(PuLogErrorKind::Malformed)?;
        let departure = seconds("departure", departure).map_err(PuLogErrorKind::Malformed)?;
        let user = match self.last {
            Some((last, user)) if last == id => user,
            _ => self.known.get(&id).ok_or(PuLogErrorKind::UnknownUser(id))?.0,
        };
        if departure <= arrival {
            return Err(PuLogErrorKind::NotAfter);
        }
        self.last = Some((id, user));
        let (arrival, departure) = (Instant::from_nanos(arrival), Instant::from_nanos(departure));
        self.bursts.push(Burst { user, arrival, departure, line });
        Ok(())
    }
}

fn identifier(text: &str) -> Result<u32, PuLogErrorKind> {
    let right = "an identifier, a whole number below 2^32";
    whole("i", text, 0..=u32::MAX, right).map_err(PuLogErrorKind::Malformed)
}

#[cfg(test)]
#[path = "pu_log_read_tests.rs"]
mod tests;
