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

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Every record that there is.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.records.iter()
    }

    /// Every record that there is.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.records.iter_mut()
    }

    /// The number goes to another station. The record that many share stays.
    pub fn forget(&mut self, station: StationId) {
        if station.0 < self.limit
            && let Some(record) = self.records.get_mut(station.0 as usize)
        {
            *record = T::default();
        }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        self.records.resize_with(len, T::default);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_goes_to_another_station_has_no_past() {
        let mut records = PerStation::<u32>::new(2);
        for number in 0..5 {
            *records.at(StationId(number)) += 10;
        }
        assert_eq!(records.get(StationId(9)), Some(&30), "2, 3 and 4 share one");
        records.forget(StationId(1));
        records.forget(StationId(2));
        let all: Vec<u32> = (0..3).map(|number| *records.at(StationId(number))).collect();
        assert_eq!(all, [10, 0, 30]);
    }
}
