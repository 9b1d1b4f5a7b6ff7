//! A record for each station, in a table of bounded size.

use crate::packet::StationId;

/// Records by station number, made when first needed. Stations numbered from `limit` on share one record.
#[derive(Debug)]
pub(super) struct PerStation<T> {
    records: Vec<T>,
    limit: u32,
}

impl<T: Default> PerStation<T> {
    pub fn new(limit: u32) -> Self {
        Self { records: Vec::new(), limit }
    }

    /// The number under which the station's record is kept.
    pub fn number(&self, station: StationId) -> u32 {
        station.0.min(self.limit)
    }

    /// The station's record, if there is one.
    pub fn get(&self, station: StationId) -> Option<&T> {
        self.records.get(self.number(station) as usize)
    }

    /// The station's record, made if need be.
    #[inline]
    pub fn at(&mut self, station: StationId) -> &mut T {
        let index = self.number(station) as usize;
        if index >= self.records.len() {
            self.grow(index + 1);
        }
        &mut self.records[index]
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        self.records.resize_with(len, T::default);
    }
}
