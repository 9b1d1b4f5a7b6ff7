//! `linkhold pu-log`: makes a log of primary users' activity, or checks one (crahn, section 4.1;
//! docs/pu-log.md).

use std::fmt::Write as _;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, Subcommand, ValueHint};
use linkhold_core::quantity::duration;
use linkhold_core::time::Duration;
use linkhold_radio::spectrum::{Band, Generator, Occupancy, Places, PuActivity, PuLog};
use linkhold_scenario::input;
use nix::unistd::{AccessFlags, access};

use crate::numbers::whole;
use crate::output::print;
use crate::program::VERSION;
use crate::{Failure, interrupt};

/// `linkhold pu-log`.
#[derive(Debug, Subcommand)]
pub enum PuLogCommand {
    /// Make a log: every primary user on and off by turns, by a birth-death process.
    ///
    /// Users of a band are on for an exponential time of mean 1/alpha seconds and off for one of mean 1/beta,
    /// and start in the stationary state. One seed gives the same log, byte for byte.
    Generate(GenerateArgs),
    /// Check a log and say what it comes to, band by band.
    ///
    /// The first problem is told with file and line; the exit code is then 2.
    Check {
        /// The log, or - for standard input.
        #[arg(value_hint = ValueHint::FilePath)]
        log: PathBuf,
        /// Bands that there are; a user on a higher one is an error [default: the highest in the log].
        #[arg(long, value_name = "B", allow_negative_numbers = true, value_parser = whole::<u16>(1..=1024))]
        bands: Option<u16>,
    },
}

/// `linkhold pu-log generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Number of bands.
    #[arg(long, value_name = "B", allow_negative_numbers = true, value_parser = whole::<u16>(1..=1024))]
    bands: u16,
    /// Death rate, 1/s: users are on for 1/alpha on average. One for all bands, or one for each with commas
    /// between.
    #[arg(long, value_name = "RATE", value_delimiter = ',', required = true, allow_negative_numbers = true)]
    alpha: Vec<f64>,
    /// Birth rate, 1/s: users are off for 1/beta on average. One for all bands, or one for each with commas
    /// between.
    #[arg(long, value_name = "RATE", value_delimiter = ',', required = true, allow_negative_numbers = true)]
    beta: Vec<f64>,
    /// Time that the log covers, from 0. A burst that would go on ends then.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration)]
    duration: Duration,
    /// Users on each band.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u32>(0..=u64::from(u32::MAX)))]
    users_per_band: u32,
    /// Users are anywhere in this rectangle, metres.
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "1000x1000", conflicts_with = "place")]
    area: Pair<'x'>,
    /// Place of one user, metres; give the option once for each user, in the order of the bands.
    #[arg(long, value_name = "X,Y", allow_hyphen_values = true)]
    place: Vec<Pair<','>>,
    /// Transmit power of each user, W.
    #[arg(long, value_name = "WATTS", default_value_t = 1.0, allow_negative_numbers = true)]
    power: f64,
    /// Seed of times and places.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,
    /// The log to write; it appears whole or not at all [default: standard output].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

/// Two numbers with a sign between.
#[derive(Clone, Copy, Debug)]
struct Pair<const BETWEEN: char>(f64, f64);

impl<const BETWEEN: char> FromStr for Pair<BETWEEN> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        let pair = text.split_once(BETWEEN).and_then(|(a, b)| Some(Self(number(a)?, number(b)?)));
        pair.ok_or_else(|| format!("write two numbers of metres, as in 300{BETWEEN}200"))
    }
}

/// Runs a subcommand of `linkhold pu-log`.
pub fn run(command: &PuLogCommand) -> Result<(), Failure> {
    match command {
        PuLogCommand::Generate(args) => generate(args),
        PuLogCommand::Check { log, bands } => check(log, *bands),
    }
}

fn generate(args: &GenerateArgs) -> Result<(), Failure> {
    if let Some(out) = &args.out {
        check_out(out)?;
    }
    let rate = |name: &str, list: &[f64], band: usize| match list {
        [one] => Ok(*one),
        _ if list.len() == usize::from(args.bands) => Ok(list.get(band).copied().unwrap_or_default()),
        _ => Err(Failure::BadInput(format!(
            "--{name}: there are {} rates for {} bands; give one, or one for each",
            list.len(),
            args.bands
        ))),
    };
    let activity = |band| {
        let (alpha, beta) = (rate("alpha", &args.alpha, band)?, rate("beta", &args.beta, band)?);
        PuActivity::new(alpha, beta)
            .map_err(|error| Failure::BadInput(format!("--alpha and --beta: {error}")))
    };
    let bands = (0..usize::from(args.bands)).map(activity).collect::<Result<Vec<_>, _>>()?;
    let Pair(width, height) = args.area;
    let places = if args.place.is_empty() {
        Places::Random { width, height }
    } else {
        Places::Given(args.place.iter().map(|&Pair(x, y)| (x, y)).collect())
    };
    let generator = Generator {
        bands,
        users_per_band: args.users_per_band,
        places,
        power: args.power,
        duration: args.duration,
    };
    let log = generator.generate(args.seed).map_err(|error| Failure::BadInput(error.to_string()))?;
    let head = format!(
        "# linkhold {VERSION}\n# linkhold pu-log generate: alpha {:?}, beta {:?}, {} long, seed {}\n",
        args.alpha, args.beta, args.duration, args.seed
    );
    match &args.out {
        None => print(&format!("{head}{log}")),
        Some(out) => {
            interrupt::watch()?;
            write(out, &head, &log)
                .map_err(|error| Failure::Failed(format!("--out {}: {error}", out.display())))
        }
    }
}

/// The folder that `out` stands in.
fn folder_of(out: &Path) -> &Path {
    out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// True for a device or a pipe, which is written into and not replaced.
fn is_special(out: &Path) -> bool {
    out.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Refuses a file that cannot be made, before the log is.
fn check_out(out: &Path) -> Result<(), Failure> {
    if is_special(out) {
        return Ok(());
    }
    let folder = folder_of(out);
    let what = if out.is_dir() || out.as_os_str().is_empty() {
        "it is a folder; give a file in it, such as pu.log".to_owned()
    } else if !folder.is_dir() {
        format!("there is no folder {}; make it, or give a file in another", folder.display())
    } else if let Err(error) = access(folder, AccessFlags::W_OK | AccessFlags::X_OK) {
        format!("{} is not writable ({}); give a file in another folder", folder.display(), error.desc())
    } else {
        return Ok(());
    };
    Err(Failure::BadInput(format!("--out {}: {what}", out.display())))
}

/// Writes the log beside `out` and moves it there. After an error or a signal nothing remains of it.
fn write(out: &Path, head: &str, log: &PuLog) -> io::Result<()> {
    if is_special(out) {
        return fill(&mut File::options().write(true).open(out)?, head, log);
    }
    // What a link leads to is written, and the link stays.
    let out = &out.canonicalize().unwrap_or_else(|_| out.to_path_buf());
    // The process's umask takes from these what it takes from every new file.
    let mut builder = tempfile::Builder::new();
    let partial = builder.prefix(".linkhold-partial-").permissions(Permissions::from_mode(0o666));
    let (_unfinished, mut partial) = interrupt::begin(|| partial.tempfile_in(folder_of(out)))?;
    fill(partial.as_file_mut(), head, log)?;
    partial.persist(out).map(drop).map_err(|error| error.error)
}

fn fill(file: &mut File, head: &str, log: &PuLog) -> io::Result<()> {
    let mut writer = BufWriter::new(file);
    write!(writer, "{head}{log}")?;
    writer.flush()
}

fn check(path: &Path, bands: Option<u16>) -> Result<(), Failure> {
    let shown = input::shown(path);
    let bytes = input::read(path, input::MAX_RECORDED)
        .map_err(|error| Failure::BadInput(format!("{shown}: cannot read it: {error}")))?;
    let log = PuLog::parse(&bytes, bands)
        .map_err(|error| Failure::BadInput(format!("{shown}:{}: {}", error.line, error.kind)))?;
    print(&format!("{shown}: OK\n{}", describe(&log)))
}

/// `n` things.
fn count(n: usize, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

/// What a log comes to: a line for all of it, and one for each band.
fn describe(log: &PuLog) -> String {
    let end = log.end();
    let (users, bursts) = (count(log.users().len(), "PU"), count(log.bursts(), "burst"));
    let bands = count(usize::from(log.bands()), "band");
    let mut text = format!("{users} on {bands}, {bursts} until {} s\n", end.as_secs_f64());
    for band in (1..=log.bands()).filter_map(Band::new) {
        let users = log.users().iter().enumerate().filter(|(_, user)| user.band == band);
        let (mut number, mut on, mut off) = (0, Mean::default(), Mean::default());
        for (index, _) in users {
            number += 1;
            let mut last = None;
            for (arrival, departure) in log.bursts_of(index) {
                on.add(departure.since(arrival));
                if let Some(last) = last {
                    off.add(arrival.since(last));
                }
                last = Some(departure);
            }
        }
        let occupied = Occupancy::of(log, band, |_| true).on_time(end).as_secs_f64();
        let share = if occupied > 0.0 { 100.0 * occupied / end.as_secs_f64() } else { 0.0 };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "band {}: {}, occupied {share:.1} % of the time; a PU is on for {} and off for {} on average",
            band.number(),
            count(number, "PU"),
            on.shown(),
            off.shown()
        );
    }
    text
}

/// A mean of times.
#[derive(Default)]
struct Mean {
    seconds: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, time: Duration) {
        self.seconds += time.as_secs_f64();
        self.count += 1;
    }

    fn shown(&self) -> String {
        if self.count == 0 { "-".to_owned() } else { format!("{:.3} s", self.seconds / self.count as f64) }
    }
}
