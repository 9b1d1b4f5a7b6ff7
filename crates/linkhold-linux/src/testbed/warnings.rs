//! Where the testbed's own warnings go: a program that shows progress and prints results has no daemon's log.

use std::io;

use tracing_subscriber::EnvFilter;

/// Sends this crate's warnings and errors to what `writer` makes, in lines without time and colours.
pub fn print_warnings<W: io::Write + 'static>(writer: impl Fn() -> W + Send + Sync + 'static) {
    // A second call (tests, a library user's own subscriber) changes nothing.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("linkhold_linux=warn"))
        .with_writer(writer)
        // A failure to write would be told on standard error, which has just failed.
        .log_internal_errors(false)
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .try_init();
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The only test of this program that sets a log up.
    #[test]
    fn warnings_are_printed_in_plain_lines_and_nothing_less() {
        let written = Written::default();
        let writer = written.clone();
        print_warnings(move || writer.clone());
        tracing::info!("said by the way, in a test");
        tracing::warn!("a capture lacks packets, in a test");
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        // Other tests beside this one may warn.
        assert!(text.lines().any(|line| line.trim() == "WARN a capture lacks packets, in a test"), "{text}");
        assert!(!text.contains("by the way"), "{text}");
    }
}
