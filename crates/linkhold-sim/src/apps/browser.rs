//! A user of the web and the server: request, response, the objects inside, reading, the next page.
//!
//! Sees: how many bytes of the connection each end has received, and its own wake-ups. Emits: what an end
//! writes, and when to wake it ([`Step`]); page load times.
//!
//! ```text
//! asking (main object) -> parsing -> asking (embedded objects, one after another) -> reading -> asking ...
//! ```
//! Source: IEEE 802.16m-08/004r5, Evaluation Methodology Document, HTTP traffic model (section 10.1 of its
//! drafts, C802.16m-07/182r3), which NGMN (Radio Access Performance Evaluation Methodology 1.0) and 3GPP
//! (R1-070674) have alike: truncated lognormal objects, mu and sigma 8.37 and 1.37 (main; the document's mean
//! is 10,710 B, the law's as cut 11,054 B), 6.17 and 2.36 (embedded; 7,758 and 8,197 B); a truncated Pareto
//! number of embedded objects, mean 5.64; exponential parsing (0.13 s) and reading (30 s) times. The request
//! of 350 B: 3GPP2 TSG-C5, HTTP, FTP and TCP models for 1xEV-DV simulations. The scenario's keys have these
//! as defaults.
//!
//! Chosen here: a lognormal size out of bounds is drawn again; a Pareto number above its bound is the bound,
//! as the mean of 5.64 needs; objects are asked for one after another, without pipelining; a page without
//! embedded objects ends with its main object; the server answers at once. All numbers come from the user's
//! own stream, in an order that the network cannot change, so every case sees the same pages.

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Bytes;
use linkhold_radio::rng::Stream;
use linkhold_results::{DelayHistogram, WebRecord};
use linkhold_scenario::{ObjectCounts, ObjectSizes, Web, WebConnection};

/// Most draws of a size; then it is cut to its bounds, so that no setting can make a run stand still.
const MOST_DRAWS: u32 = 1_000;

/// An end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebEnd {
    /// The user's.
    Client,
    /// The server's.
    Server,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// The client writes a request of this size.
    Ask(Bytes),
    /// The client opens a new connection and writes a request of this size; [`Browser::connected`] tells that
    /// it has.
    Connect(Bytes),
    /// The server writes an object of this size.
    Answer(Bytes),
    /// Wake the browser then.
    Wait(Instant),
    /// The page is done: wake the browser then. If `close`, the client ends the connection.
    Read {
        /// When the next page begins.
        until: Instant,
        /// Whether the connection is over.
        close: bool,
    },
    /// The user has left; the client ends the connection.
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for a connection, to ask for an object of `size`.
    Connecting {
        size: u64,
    },
    /// Waits for an object of `size`; `answered` once the server has written it.
    Asking {
        size: u64,
        answered: bool,
    },
    Parsing,
    Reading,
    /// The user has left, at this time.
    Gone(Instant),
}

/// One user.
#[derive(Clone, Debug)]
pub struct Browser {
    web: Web,
    stream: Stream,
    state: State,
    /// On this connection: bytes that the client has asked with, and the server has answered with.
    asked: u64,
    answered: u64,
    /// Embedded objects of the page that are still to be asked for, the next one last.
    embedded: Vec<u64>,
    /// Of the page, until its main object is there.
    parsing: Option<Duration>,
    reading: Duration,
    page_began: Instant,
    leaving: bool,
    counted_from: Option<Instant>,
    pages: DelayHistogram,
    objects: u64,
}

impl Browser {
    /// A user with random numbers of its own.
    #[must_use]
    pub fn new(web: Web, stream: Stream) -> Self {
        Self {
            web,
            stream,
            state: State::Reading,
            asked: 0,
            answered: 0,
            embedded: Vec::with_capacity(web.embedded_objects.most as usize),
            parsing: None,
            reading: Duration::ZERO,
            page_began: Instant::ZERO,
            leaving: false,
            counted_from: None,
            pages: DelayHistogram::new(),
            objects: 0,
        }
    }

    /// The first page; the connection opens now.
    pub fn begin(&mut self, now: Instant) -> Step {
        self.page(now)
    }

    /// One end has received `received` bytes of this connection.
    pub fn on_received(&mut self, now: Instant, end: WebEnd, received: u64) -> Step {
        let State::Asking { size, answered } = self.state else { return Step::Nothing };
        match end {
            WebEnd::Server if !answered && received >= self.asked => {
                self.state = State::Asking { size, answered: true };
                self.answered += size;
                Step::Answer(Bytes(size))
            }
            WebEnd::Client if answered && received >= self.answered => self.object_done(now),
            WebEnd::Server | WebEnd::Client => Step::Nothing,
        }
    }

    /// The time it asked for has come.
    pub fn on_wake(&mut self, now: Instant) -> Step {
        match self.state {
            State::Parsing => self.next_embedded(),
            State::Reading if self.leaving => {
                self.state = State::Gone(now);
                Step::Leave
            }
            State::Reading => self.page(now),
            State::Connecting { .. } | State::Asking { .. } | State::Gone(_) => Step::Nothing,
        }
    }

    /// The connection of [`Step::Connect`] is there, and its request is written.
    pub fn connected(&mut self) {
        if let State::Connecting { size } = self.state {
            self.asked = self.web.request.0;
            self.answered = 0;
            self.state = State::Asking { size, answered: false };
        }
    }

    /// The user leaves when the page is read.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// When the user left, if that has happened.
    #[must_use]
    pub const fn gone_at(&self) -> Option<Instant> {
        match self.state {
            State::Gone(at) => Some(at),
            State::Connecting { .. } | State::Asking { .. } | State::Parsing | State::Reading => None,
        }
    }

    /// Counts from `now` on: pages that begin, and objects that arrive.
    pub fn count_from(&mut self, now: Instant) {
        self.counted_from = Some(now);
    }

    /// The page load times that count.
    #[must_use]
    pub const fn pages(&self) -> &DelayHistogram {
        &self.pages
    }

    /// What has been counted.
    #[must_use]
    pub fn record(&self) -> WebRecord {
        WebRecord::new(&self.pages, self.objects)
    }

    /// A page begins: draws all its numbers.
    fn page(&mut self, now: Instant) -> Step {
        self.page_began = now;
        let main = size(&self.web.main_object, &mut self.stream);
        let count = count(&self.web.embedded_objects, &mut self.stream);
        self.embedded.clear();
        for _ in 0..count {
            self.embedded.push(size(&self.web.embedded_object, &mut self.stream));
        }
        self.parsing = Some(self.stream.exponential(self.web.parsing_time));
        self.reading = self.stream.exponential(self.web.reading_time);
        let first = self.asked == 0;
        match self.web.connection {
            WebConnection::Page if !first => {
                self.state = State::Connecting { size: main };
                Step::Connect(self.web.request)
            }
            WebConnection::Page | WebConnection::Persistent => self.ask(main),
        }
    }

    fn ask(&mut self, size: u64) -> Step {
        self.state = State::Asking { size, answered: false };
        self.asked += self.web.request.0;
        Step::Ask(self.web.request)
    }

    fn next_embedded(&mut self) -> Step {
        match self.embedded.pop() {
            Some(size) => self.ask(size),
            None => Step::Nothing,
        }
    }

    fn object_done(&mut self, now: Instant) -> Step {
        self.objects += u64::from(self.counted_from.is_some());
        if self.embedded.is_empty() {
            if self.counted_from.is_some_and(|from| self.page_began >= from) {
                self.pages.record(now.since(self.page_began));
            }
            self.state = State::Reading;
            let close = self.web.connection == WebConnection::Page;
            return Step::Read { until: now + self.reading, close };
        }
        match self.parsing.take() {
            Some(time) => {
                self.state = State::Parsing;
                Step::Wait(now + time)
            }
            None => self.next_embedded(),
        }
    }
}

fn size(law: &ObjectSizes, stream: &mut Stream) -> u64 {
    let (min, max) = (law.min.0 as f64, law.max.0 as f64);
    let mut draw = || law.median.0 as f64 * (law.sigma * stream.normal()).exp();
    let fitting = (0..MOST_DRAWS).map(|_| draw()).find(|bytes| (min..=max).contains(bytes));
    fitting.unwrap_or(law.median.0 as f64).clamp(min, max).round() as u64
}

fn count(law: &ObjectCounts, stream: &mut Stream) -> u32 {
    // 1 - unit() is in (0, 1].
    let pareto = law.scale * (1.0 - stream.unit()).powf(-1.0 / law.shape);
    (pareto - law.scale).min(f64::from(law.most)).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Pages with two embedded objects each, all of known size.
    fn known(connection: WebConnection) -> Web {
        let sizes =
            |bytes| ObjectSizes { median: Bytes(bytes), sigma: 0.0, min: Bytes(1), max: Bytes(10_000) };
        Web {
            connection,
            main_object: sizes(5_000),
            embedded_object: sizes(700),
            // A Pareto number of at least 2 beyond its scale, almost surely: cut to 2.
            embedded_objects: ObjectCounts { shape: 0.01, scale: 2.0, most: 2 },
            ..Web::default()
        }
    }

    #[test]
    fn a_page_goes_from_its_request_to_its_last_embedded_object() {
        for connection in [WebConnection::Page, WebConnection::Persistent] {
            let mut user = Browser::new(known(connection), Stream::new(1, "web", 0));
            user.count_from(at(0));
            assert_eq!(user.begin(at(0)), Step::Ask(Bytes(350)));
            assert_eq!(user.on_received(at(10), WebEnd::Server, 349), Step::Nothing);
            assert_eq!(user.on_received(at(11), WebEnd::Server, 350), Step::Answer(Bytes(5_000)));
            assert_eq!(user.on_received(at(12), WebEnd::Server, 350), Step::Nothing);
            assert_eq!(user.on_received(at(20), WebEnd::Client, 4_999), Step::Nothing);
            let Step::Wait(parsed) = user.on_received(at(21), WebEnd::Client, 5_000) else {
                panic!("it parses")
            };
            assert!(parsed > at(21));
            let parsed = parsed.max(at(100));
            assert_eq!(user.on_wake(parsed), Step::Ask(Bytes(350)));
            assert_eq!(user.on_received(parsed, WebEnd::Server, 700), Step::Answer(Bytes(700)));
            assert_eq!(user.on_received(parsed, WebEnd::Client, 5_700), Step::Ask(Bytes(350)));
            assert_eq!(user.on_received(parsed, WebEnd::Server, 1_050), Step::Answer(Bytes(700)));
            let done = parsed + Duration::from_millis(50);
            let Step::Read { until, close } = user.on_received(done, WebEnd::Client, 6_400) else {
                panic!("it reads")
            };
            assert!(until > done);
            assert_eq!(close, connection == WebConnection::Page);
            let record = user.record();
            assert_eq!((record.pages, record.objects), (1, 3));
            assert!((record.page_mean_s - done.since(at(0)).as_secs_f64()).abs() < 1e-9);
            match connection {
                WebConnection::Persistent => assert_eq!(user.on_wake(until), Step::Ask(Bytes(350))),
                WebConnection::Page => {
                    assert_eq!(user.on_wake(until), Step::Connect(Bytes(350)));
                    assert_eq!(
                        user.on_received(until, WebEnd::Server, 1_050),
                        Step::Nothing,
                        "the old connection"
                    );
                    user.connected();
                    assert_eq!(user.on_received(until, WebEnd::Server, 350), Step::Answer(Bytes(5_000)));
                }
            }
        }
    }

    #[test]
    fn a_user_who_leaves_reads_the_page_first() {
        let mut user = Browser::new(known(WebConnection::Persistent), Stream::new(1, "web", 0));
        user.begin(at(0));
        user.leave();
        user.embedded.clear();
        assert_eq!(user.on_received(at(1), WebEnd::Server, 350), Step::Answer(Bytes(5_000)));
        let Step::Read { until, .. } = user.on_received(at(2), WebEnd::Client, 5_000) else {
            panic!("it reads")
        };
        assert_eq!((user.on_wake(until), user.on_wake(until)), (Step::Leave, Step::Nothing));
    }

    #[test]
    fn the_defaults_have_the_means_of_their_documents_laws() {
        let web = Web::default();
        let mut stream = Stream::new(1, "test", 0);
        let draws = 400_000;
        let mut mean = |draw: &mut dyn FnMut(&mut Stream) -> f64| {
            (0..draws).map(|_| draw(&mut stream)).sum::<f64>() / f64::from(draws)
        };
        let main = mean(&mut |stream| size(&web.main_object, stream) as f64);
        let embedded = mean(&mut |stream| size(&web.embedded_object, stream) as f64);
        let number = mean(&mut |stream| f64::from(count(&web.embedded_objects, stream)));
        println!("main {main:.0} B, embedded {embedded:.0} B, {number:.3} embedded objects");
        // The document states 10,710 B, and a mu and sigma whose law, cut at 100 B and 2 MB, has 11,054 B.
        assert!((main / 11_054.0 - 1.0).abs() < 0.02, "{main}");
        // Likewise 7,758 B, and 8,197 B cut at 50 B and 2 MB.
        assert!((embedded / 8_197.0 - 1.0).abs() < 0.04, "{embedded}");
        assert!((number / 5.64 - 1.0).abs() < 0.03, "{number}");
    }
}
