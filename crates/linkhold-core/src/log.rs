//! Input log of a mechanism: record, then replay bit for bit.
