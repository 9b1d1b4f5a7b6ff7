//! `linkhold sense`: from a radio's samples to the agent's freezes and thaws (cr-aware, section 3).
//!
//! ```text
//! recording or standard input ─► Blocks ─► Sensor ─► Report (standard output)
//!                                                └─► Teller (control socket)
//! ```
//!
//! What was told to the agent is ended on every way out: the input's end, a bad sample, Ctrl-C and SIGTERM.

mod args;
mod report;
mod teller;

use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::process::exit;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use linkhold_sense::sigmf::{OpenError, Recording};
use linkhold_sense::{Blocks, Calibrated, Event, Format, Sensor, to_db};
use nix::sys::signal::Signal;
use tempfile::SpooledTempFile;

use crate::Failure;
use crate::commands::signal::failure;
use crate::output::{print, print_to_reader};

pub use args::SenseArgs;
use report::{Handling, Report};
use teller::Teller;

/// After a signal the input has this long to end by itself, or two blocks if those take longer: in a pipe,
/// the radio's program gets the signal, too, and a stream that goes on is looked at when its block is full.
const GRACE: Duration = Duration::from_secs(1);
/// Output of a recording that is kept in memory until it is complete; more of it goes to a temporary file.
const KEPT: usize = 1 << 20;

/// What is read, and what is known of it.
struct Input {
    /// For messages.
    name: String,
    bytes: Box<dyn Read>,
    format: Format,
    rate: f64,
    center: Option<f64>,
    /// Samples in it; `None` of a stream.
    samples: Option<u64>,
}

/// Runs `linkhold sense`.
pub fn run(args: &SenseArgs) -> Result<(), Failure> {
    let input = open(args)?;
    let bad = Failure::BadInput;
    let settings = args.settings(input.rate, input.center).map_err(bad)?;
    let sensor = Sensor::new(&settings).map_err(|error| bad(error.to_string()))?;
    let plan = settings.plan().map_err(|error| bad(error.to_string()))?;
    let needed = ((plan.calibrate + 1) * plan.block) as u64;
    if let Some(samples) = input.samples.filter(|&samples| samples < needed) {
        return Err(bad(too_short(&input.name, samples, input.rate, plan.calibrate, args)));
    }
    let teller = Arc::new(Mutex::new(Teller::connect(args).map_err(failure)?));
    let stop = Stop::default();
    let block = Duration::from_secs_f64(plan.block as f64 / input.rate);
    watch(Arc::clone(&teller), stop.clone(), GRACE.max(2 * block))?;
    let report =
        Report { json: args.json, settings, datatype: input.format.datatype(), center: input.center };
    let recorded = input.samples.is_some();
    let mut session = Session {
        format: input.format,
        blocks: Blocks::new(input.bytes, input.format, sensor.block()),
        sensor,
        report,
        teller,
        stop,
        output: match (&args.signal, recorded) {
            (Some(_), _) => Output::AtOnce,
            (None, true) => Output::whole(),
            (None, false) => Output::ToReader,
        },
        recorded,
        pace: (recorded && args.signal.is_some()).then(Instant::now),
        handling: Handling::default(),
    };
    let sensed = session.sense().map_err(|failure| about(&input.name, failure));
    session.finish(sensed, |sensor_samples, rate| {
        too_short(&input.name, sensor_samples, rate, plan.calibrate, args)
    })
}

/// Opens the recording or standard input.
fn open(args: &SenseArgs) -> Result<Input, Failure> {
    if args.input == Path::new("-") {
        let (Some(format), Some(rate)) = (args.format, args.rate) else {
            let what = "standard input: raw samples do not say what they are; \
                        give --format and --rate, as in --format cu8 --rate 2.4MHz";
            return Err(Failure::BadInput(what.to_owned()));
        };
        return Ok(Input {
            name: "standard input".to_owned(),
            bytes: Box::new(io::stdin().lock()),
            format: format.into(),
            rate,
            center: args.center,
            samples: None,
        });
    }
    if args.format.is_some() {
        let what = "--format: a recording's metadata say its format and rate; give them for - only";
        return Err(Failure::BadInput(what.to_owned()));
    }
    let recording =
        Recording::open(&args.input).map_err(|error: OpenError| Failure::BadInput(error.to_string()))?;
    if let (Some(_), Some(frequency)) = (args.center, recording.meta.frequency) {
        let what =
            format!("--center: the recording's metadata say {frequency} Hz; leave it out, or correct them");
        return Err(Failure::BadInput(what));
    }
    Ok(Input {
        name: args.input.display().to_string(),
        format: recording.meta.format,
        rate: recording.meta.rate,
        center: recording.meta.frequency.or(args.center),
        samples: Some(recording.samples),
        bytes: Box::new(recording.data),
    })
}

fn too_short(name: &str, samples: u64, rate: f64, calibrate: usize, args: &SenseArgs) -> String {
    let seconds = samples as f64 / rate;
    if samples == 0 && calibrate == 0 {
        format!("{name}: it holds less than a block ({}); give a shorter --block", args.block)
    } else if samples == 0 {
        format!("{name}: it is empty, or holds less than a block; is the radio's program running?")
    } else if calibrate == 0 {
        format!("{name}: its {seconds} s are less than a block ({}); give a shorter --block", args.block)
    } else {
        format!(
            "{name}: its {seconds} s end within the calibration ({}) or leave no block after it; \
             give a shorter --calibrate, or the floor with --floor",
            args.calibrate
        )
    }
}

fn about(name: &str, failure: Failure) -> Failure {
    match failure {
        Failure::BadInput(what) => Failure::BadInput(format!("{name}: {what}")),
        other @ Failure::Failed(_) => other,
    }
}

/// Where lines go.
enum Output {
    /// To standard output as they come, whether anybody reads them or not: whoever listens on the socket is
    /// told all the same.
    AtOnce,
    /// The same, as long as somebody reads them.
    ToReader,
    /// Kept until all is well.
    Whole(SpooledTempFile),
}

impl Output {
    fn whole() -> Self {
        Self::Whole(SpooledTempFile::new(KEPT))
    }

    /// False if nobody is left for whom to go on.
    fn write(&mut self, text: &str) -> Result<bool, Failure> {
        match self {
            Self::AtOnce => print(text).map(|()| true),
            Self::ToReader => print_to_reader(text),
            Self::Whole(file) => file.write_all(text.as_bytes()).map(|()| true).map_err(cannot_keep),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        let Self::Whole(mut file) = self else { return Ok(()) };
        file.rewind().map_err(cannot_keep)?;
        match io::copy(&mut file, &mut io::stdout().lock()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::Failed(format!("standard output: {error}")))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn cannot_keep(error: io::Error) -> Failure {
    Failure::Failed(format!("cannot keep the output until it is complete: {error}"))
}

/// The teller, shared with the thread that waits for signals.
type Shared = Arc<Mutex<Option<Teller>>>;

/// The signal that came, shared with the thread that waits for it; 0 until then.
#[derive(Clone, Default)]
struct Stop(Arc<AtomicI32>);

impl Stop {
    fn came(&self) -> Option<Signal> {
        Signal::try_from(self.0.load(Ordering::Relaxed)).ok()
    }
}

/// Why sensing ended, where nothing went wrong.
#[derive(Clone, Copy)]
enum End {
    /// The input is over.
    Input,
    /// A signal came first.
    Stopped(Signal),
    /// Nobody is left for whom to sense.
    Unread,
}

/// One input being sensed.
struct Session {
    format: Format,
    blocks: Blocks<Box<dyn Read>>,
    sensor: Sensor,
    report: Report,
    teller: Shared,
    stop: Stop,
    output: Output,
    /// The input is a recording, which has an end of its own.
    recorded: bool,
    /// When the recording's first sample was played; `None` if it is read as fast as it can be.
    pace: Option<Instant>,
    handling: Handling,
}

impl Session {
    /// Senses until the input ends, the user does, or nobody is left for whom to sense.
    fn sense(&mut self) -> Result<End, Failure> {
        let bad = |error: &dyn std::error::Error| Failure::BadInput(error.to_string());
        let length = self.sensor.block();
        // With a given floor, what is known of it is known at once. It is told with the first block, so that
        // an empty input prints nothing.
        let mut given = self.sensor.calibrated().copied();
        loop {
            if let Some(signal) = self.stop.came() {
                return Ok(End::Stopped(signal));
            }
            let Some(block) = self.blocks.next_block().map_err(|error| Failure::Failed(error.to_string()))?
            else {
                return Ok(End::Input);
            };
            let arrived = Instant::now();
            let event = self.sensor.on_block(block).map_err(|error| bad(&error))?;
            if let Some(known) = given.take() {
                self.hint_at_a_deaf_threshold(&known);
                if !self.output.write(&self.report.event(&Event::Calibrated(known), length))? {
                    return Ok(End::Unread);
                }
            }
            if let Some(event) = event {
                if let Event::Calibrated(known) = &event {
                    self.hint_at_a_deaf_threshold(known);
                }
                tell(&self.teller, &event, arrived).map_err(failure)?;
                if !self.output.write(&self.report.event(&event, length))? {
                    return Ok(End::Unread);
                }
            } else if let Some(teller) = lock(&self.teller).as_mut() {
                teller.tell_again().map_err(failure)?;
            }
            let took = arrived.elapsed();
            self.handling.working += took;
            self.handling.slowest = self.handling.slowest.max(took);
            if let Some(start) = self.pace {
                let due = Duration::from_secs_f64(self.blocks.samples() as f64 / self.report.settings.rate);
                std::thread::sleep(due.saturating_sub(start.elapsed()));
            }
        }
    }

    /// Says so if no sample of this form can pass the threshold. It is a hint and no error: a floor that was
    /// calibrated in clipped samples may be as high, and the run then shows what was there.
    fn hint_at_a_deaf_threshold(&self, known: &Calibrated) {
        let Some(most) = self.format.most_power().filter(|&most| known.threshold >= most) else { return };
        tell!(
            "hint: the threshold, {:.1} dBFS, is above full scale: a sample of {} has {:.1} dBFS at most, so \
             nothing is ever detected; a floor is dB of full scale, such as --floor -42.5",
            to_db(known.threshold),
            self.format.datatype(),
            to_db(most),
        );
    }

    /// Ends what is under way, and sums up if all went well and somebody reads it. A recording that was not
    /// sensed to its end has no summary: it would say of the whole what was seen of a part.
    fn finish(
        mut self,
        sensed: Result<End, Failure>,
        too_short: impl Fn(u64, f64) -> String,
    ) -> Result<(), Failure> {
        let (last, summary) = self.sensor.finish();
        let thawed = match lock(&self.teller).as_mut() {
            Some(teller) => teller.thaw(Instant::now()),
            None => Ok(false),
        };
        if let (Err(_), Ok(true)) = (&sensed, &thawed) {
            tell!("thawed: the freeze under way was ended");
        }
        let end = sensed?;
        thawed.map_err(failure)?;
        match end {
            End::Unread => return Ok(()),
            End::Stopped(signal) if self.recorded => {
                tell!(
                    "stopped by {signal} after {:.6} s of the recording, which has no summary therefore",
                    summary.samples as f64 / self.report.settings.rate
                );
                exit(128 + signal as i32);
            }
            // In a pipe the radio's program gets the signal, too, and the input may end first.
            End::Stopped(_) | End::Input => {
                self.handling.stopped = self.stop.came().filter(|_| !self.recorded)
            }
        }
        let (tail, odd) = self.blocks.tail();
        if let (0, Some(signal)) = (summary.decisions, self.handling.stopped) {
            tell!("stopped by {signal} before a block was judged, so nothing was sensed");
            return self.output.finish();
        }
        if summary.decisions == 0 {
            return Err(Failure::BadInput(too_short(summary.samples, self.report.settings.rate)));
        }
        if odd > 0 {
            tell!("hint: the input ended within a sample ({odd} bytes left); is the format right?");
        }
        if let Some(event) = &last {
            self.output.write(&self.report.event(event, summary.block))?;
        }
        self.handling.tail = tail;
        if let Some(teller) = lock(&self.teller).as_ref() {
            self.handling.told = Some(teller.told);
            self.handling.failed = teller.failed;
        }
        self.output.write(&self.report.summary(&summary, &self.handling))?;
        self.output.finish()?;
        match self.handling.failed {
            0 => Ok(()),
            failed => Err(Failure::Failed(format!("{failed} messages were not answered"))),
        }
    }
}

fn lock(teller: &Shared) -> std::sync::MutexGuard<'_, Option<Teller>> {
    teller.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the agent, if there is one, of an event in a block that arrived at `arrived`.
fn tell(teller: &Shared, event: &Event, arrived: Instant) -> Result<(), linkhold_linux::agent::ClientError> {
    let mut guard = lock(teller);
    let Some(teller) = guard.as_mut() else { return Ok(()) };
    match event {
        Event::Calibrated(_) => Ok(()),
        Event::Busy { .. } => teller.freeze(arrived),
        Event::Idle { .. } => teller.thaw(arrived).map(drop),
    }
}

/// From now on a signal ends the input. If the input hangs for `grace`, the freeze under way is ended without
/// it.
fn watch(teller: Shared, stop: Stop, grace: Duration) -> Result<(), Failure> {
    let fail = |what: &str, error: io::Error| Failure::Failed(format!("cannot {what}: {error}"));
    let signals = linkhold_linux::signals::ending();
    signals.thread_block().map_err(|errno| fail("block signals", errno.into()))?;
    let wait = move || {
        let Ok(signal) = signals.wait() else { return };
        stop.0.store(signal as i32, Ordering::Relaxed);
        std::thread::sleep(grace);
        if let Some(teller) = lock(&teller).as_mut() {
            match teller.thaw(Instant::now()) {
                Ok(true) => tell!("thawed: the freeze under way was ended"),
                Ok(false) => {}
                Err(error) => tell!("not told: {error}"),
            }
        }
        exit(128 + signal as i32);
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| fail("start the signal thread", error))
}
