//! Written by scripts/testbed_table.py; do not edit. What the default carried where less was told.

/// How late each burst was told, ms.
pub(super) const LATE_MS: u32 = 20;
/// Runs of each cell.
pub(super) const RUNS: u32 = 3;
/// Share of the limit where nobody told the rate, either.
pub(super) const LATE_UNTOLD: &str = "0.996 ± 0.003";
/// Share of the limit where the rate was told.
pub(super) const LATE: &str = "0.985 ± 0.020";
