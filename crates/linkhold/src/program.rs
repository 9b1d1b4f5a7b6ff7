//! Which program this is, as every result tells.

use linkhold_results::Program;

/// What `--version` prints after the name.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("LINKHOLD_COMMIT"), ")");

/// Version and commit, for reports.
pub fn program() -> Program {
    Program::new(env!("CARGO_PKG_VERSION"), env!("LINKHOLD_COMMIT"))
}
