//! What tests of several crates share: how many cases a costly property draws, how a test says that it is
//! skipped, how long one waits for a client, and tshark. Only tests depend on it.
//!
//! `PROPTEST_CASES` says how many cases a property draws: 1,000 in `make test`, 300,000 in `make soak`. Where
//! a case is a whole simulation, 1,000 of them would take `make test` too long, but a number that is written
//! down would not grow in `make soak`. So such a property names the number for `make test`, and grows in
//! proportion ([`costly`]).
//!
//! In `proptest!`, the environment wins over a property's own settings (proptest 1.2 and later), so that each
//! of them would draw `PROPTEST_CASES`. [`properties!`] is `proptest!` where what the property says stands.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use proptest::test_runner::Config;

/// The value of `PROPTEST_CASES` for which a property draws the number of cases that it names.
const USUAL: u64 = 1000;

/// How many cases a property draws, and whether those that fail are kept for the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cases {
    count: u32,
    keeps_failures: bool,
}

/// The cases of a property that are costly: `cases` of them where `PROPTEST_CASES` is 1,000 or not set, and
/// otherwise in proportion, at least one.
#[must_use]
pub fn costly(cases: u32) -> Cases {
    let asked = std::env::var("PROPTEST_CASES").ok();
    Cases { count: in_proportion(cases, asked.as_deref()), keeps_failures: true }
}

/// The cases of a property that are cheap: as many as others draw, but no fewer than `cases`.
#[must_use]
pub fn at_least(cases: u32) -> Cases {
    Cases { count: Config::default().cases.max(cases), keeps_failures: true }
}

impl Cases {
    /// Keeps no file of cases that failed.
    #[must_use]
    pub const fn without_regressions(self) -> Self {
        Self { keeps_failures: false, ..self }
    }

    /// The settings of the property `name` with these cases.
    #[doc(hidden)]
    #[must_use]
    pub fn config(self, name: &'static str) -> Config {
        let usual = Config::default();
        let failure_persistence = usual.failure_persistence.clone().filter(|_| self.keeps_failures);
        Config { cases: self.count, test_name: Some(name), failure_persistence, ..usual }
    }
}

#[doc(hidden)]
pub use proptest as __proptest;

/// `proptest!`, where the number of cases that stands here is drawn: see the crate's documentation.
///
/// ```
/// linkhold_testing::properties! {
///     #![cases(linkhold_testing::costly(24))]
///
///     fn sums_commute(one in 0u32..100, other: u16) {
///         assert_eq!(one + u32::from(other), u32::from(other) + one);
///     }
/// }
///
/// sums_commute();
/// ```
#[macro_export]
macro_rules! properties {
    (#![cases($cases:expr)] $($(#[$meta:meta])* fn $name:ident($($argument:tt)+) $body:block)*) => {
        $(
            $(#[$meta])*
            fn $name() {
                let mut config = $crate::Cases::config($cases, concat!(module_path!(), "::", stringify!($name)));
                $crate::__proptest::proptest_helper!(@_BODY2 config ($($argument)+) [] $body);
            }
        )*
    };
}

/// `asked` is the text of `PROPTEST_CASES`. What is no number counts as not set: proptest itself warns of it.
fn in_proportion(cases: u32, asked: Option<&str>) -> u32 {
    let asked = asked.and_then(|text| text.trim().parse::<u32>().ok()).map_or(USUAL, u64::from);
    let scaled = (u64::from(cases) * asked).div_ceil(USUAL);
    u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
}

/// Says that the running test is skipped, and why.
///
/// The standard harness keeps what `println!` and `eprintln!` print of a test that passes to itself. It does
/// not see what is written to standard error itself, so a test that did nothing does not look like one that
/// passed.
pub fn skipped(reason: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Where standard error is closed nobody listens, which is no reason to fail.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// Longer than any program of ours takes to connect, on a busy machine as well.
const PATIENCE: Duration = Duration::from_secs(60);

/// A socket that [`accept`] waits on.
pub trait Listener {
    /// A client's connection.
    type Stream;

    /// The client that connected first of those that wait. Its connection blocks, as one of `accept` does.
    ///
    /// # Errors
    /// `WouldBlock` if nobody has connected, or what else the system says.
    fn take_client(&self) -> io::Result<Self::Stream>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    fn take_client(&self) -> io::Result<TcpStream> {
        self.set_nonblocking(true)?;
        let (stream, _) = self.accept()?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}

#[cfg(unix)]
impl Listener for UnixListener {
    type Stream = UnixStream;

    fn take_client(&self) -> io::Result<UnixStream> {
        self.set_nonblocking(true)?;
        let (stream, _) = self.accept()?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}

/// Waits for a client, but not for ever: a test joins the thread that plays a program's other end, and would
/// hang if the program connected once too seldom.
///
/// # Errors
/// `TimedOut` if nobody connects within a minute, or what else the system says.
pub fn accept<L: Listener>(listener: &L) -> io::Result<L::Stream> {
    accept_within(listener, PATIENCE)
}

fn accept_within<L: Listener>(listener: &L, patience: Duration) -> io::Result<L::Stream> {
    let began = Instant::now();
    loop {
        match listener.take_client() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            found => return found,
        }
        if began.elapsed() >= patience {
            let told = format!("a client was waited for, and none has connected within {patience:?}");
            return Err(io::Error::new(ErrorKind::TimedOut, told));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What tshark prints for a capture; `None` where it is not installed, after [`skipped`] has said so.
///
/// # Panics
/// If it does not start for another reason, or fails.
#[must_use]
pub fn tshark(file: &Path, arguments: &[&str]) -> Option<String> {
    // Its settings are in the home folder; a user's own must not matter.
    let home = file.parent().expect("a capture lies in a folder");
    match Command::new("tshark").arg("-r").arg(file).args(arguments).env("HOME", home).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).expect("tshark writes UTF-8"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skipped("tshark is not installed");
            None
        }
        Err(error) => panic!("tshark does not start: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn costly_properties_grow_with_the_number_that_is_asked_for() {
        for (asked, drawn) in [
            (None, 24),
            (Some("1000"), 24),
            (Some("300000"), 7200),
            (Some("100"), 3),
            (Some("0"), 1),
            (Some("many"), 24),
            (Some("4294967295"), 103_079_216),
        ] {
            assert_eq!(in_proportion(24, asked), drawn, "{asked:?}");
        }
        assert_eq!(in_proportion(u32::MAX, Some("300000")), u32::MAX);
    }

    static DRAWN: AtomicU32 = AtomicU32::new(0);

    crate::properties! {
        #![cases(Cases { count: 7, keeps_failures: false })]

        fn draws_seven(_one in 0u32..10, _other: bool) {
            DRAWN.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// `make test` runs this with 1,000 in `PROPTEST_CASES`.
    #[test]
    fn a_property_draws_what_it_says_whatever_the_environment_says() {
        draws_seven();
        assert_eq!(DRAWN.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn a_client_that_does_not_come_is_an_error_and_one_that_does_is_served() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let error = accept_within(&listener, Duration::from_millis(5)).expect_err("nobody has connected");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().ends_with("none has connected within 5ms"), "{error}");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let mut served = accept(&listener).expect("a client");
        let leaving = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(client);
        });
        assert_eq!(served.read(&mut [0]).expect("it waits for the end"), 0);
        leaving.join().expect("no panic");
    }

    #[test]
    fn cheap_properties_draw_no_fewer_than_they_say() {
        let usual = Config::default().cases;
        assert_eq!((at_least(usual + 1).count, at_least(1).count), (usual + 1, usual));
        assert!(at_least(1).without_regressions().config("name").failure_persistence.is_none());
    }
}
