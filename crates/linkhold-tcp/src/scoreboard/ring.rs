//! The records of outstanding segments by id: a ring whose size is a power of two, so that an id's low bits
//! are its place.

use super::record::Record;

/// Records when the first segment is sent.
const FIRST_SIZE: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// Empty until the first segment is sent; then a power of two.
    slots: Box<[Record]>,
    /// Id of the first record.
    base: u32,
    len: u32,
}

impl Ring {
    pub fn new() -> Self {
        Self { slots: Box::default(), base: 0, len: 0 }
    }

    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Id of the first record, or of the next one if there is none.
    #[inline]
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Id that the next record will have.
    #[inline]
    pub fn next_id(&self) -> u32 {
        self.base.wrapping_add(self.len)
    }

    /// How many records lie before this id; beyond [`len`](Self::len) if it is no record's.
    #[inline]
    pub fn index(&self, id: u32) -> u32 {
        id.wrapping_sub(self.base)
    }

    /// Id of a record by its index.
    #[inline]
    pub fn id(&self, index: u32) -> u32 {
        self.base.wrapping_add(index)
    }

    #[inline]
    fn slot(&self, id: u32) -> usize {
        id as usize & self.slots.len().wrapping_sub(1)
    }

    #[inline]
    pub fn get(&self, id: u32) -> Option<&Record> {
        if self.index(id) < self.len { self.slots.get(self.slot(id)) } else { None }
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Record> {
        let slot = self.slot(id);
        if self.index(id) < self.len { self.slots.get_mut(slot) } else { None }
    }

    #[inline]
    pub fn push(&mut self, record: Record) {
        if self.len as usize == self.slots.len() {
            self.grow(record);
        }
        let slot = self.slot(self.next_id());
        self.slots[slot] = record;
        self.len += 1;
    }

    /// Takes the first record away, which must be there.
    #[inline]
    pub fn pop(&mut self) {
        debug_assert!(self.len > 0, "there is a record to pop");
        self.base = self.base.wrapping_add(1);
        self.len -= 1;
    }

    #[cold]
    fn grow(&mut self, filler: Record) {
        let size = (self.slots.len() * 2).max(FIRST_SIZE);
        let mut slots = vec![filler; size].into_boxed_slice();
        for index in 0..self.len {
            let id = self.id(index);
            slots[id as usize & (size - 1)] = self.slots[self.slot(id)];
        }
        self.slots = slots;
    }

    /// Calls `with` on every record in order.
    pub fn for_each(&mut self, mut with: impl FnMut(&mut Record)) {
        for index in 0..self.len {
            let slot = self.slot(self.id(index));
            with(&mut self.slots[slot]);
        }
    }

    /// Index of the first record for which `before` is false; it must be true of a first part and false of
    /// the rest.
    pub fn partition_point(&self, before: impl Fn(&Record) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(&self.slots[self.slot(self.id(middle))]) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

impl core::ops::Index<u32> for Ring {
    type Output = Record;

    /// The record with this index.
    #[inline]
    fn index(&self, index: u32) -> &Record {
        debug_assert!(index < self.len, "a record's index");
        &self.slots[self.slot(self.id(index))]
    }
}

impl core::ops::IndexMut<u32> for Ring {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Record {
        debug_assert!(index < self.len, "a record's index");
        let slot = self.slot(self.id(index));
        &mut self.slots[slot]
    }
}
