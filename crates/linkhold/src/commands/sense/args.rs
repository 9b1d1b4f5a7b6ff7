//! The arguments of `linkhold sense`. Their help texts are its manual.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use linkhold_core::quantity::{self, ValueError, duration};
use linkhold_core::time::Duration;
use linkhold_sense::frequency::{band, frequency};
use linkhold_sense::{FloorSource, Format, Settings, Window};

/// Samples of a transform, unless told otherwise.
const DEFAULT_FFT: usize = 256;

/// `linkhold sense`.
#[derive(Debug, Args)]
#[command(
    long_about = "Detect a primary user in a radio's samples, and tell the agent.\n\n\
        Reads complex samples (a SigMF recording, or raw ones on standard input), measures the energy in a band and \
        compares it with the noise floor. A block above the threshold means that the primary user transmits (busy); \
        when no block was above it for T_idle, the primary user has gone (idle). With --signal, busy is a freeze and idle is a thaw of the \
        agent or the host that listens on the socket; the input's end, Ctrl-C and SIGTERM thaw, too.\n\n\
        Energy has no sender: whatever is in the band counts, your own cell included. Sense a band that only the \
        primary user sends in, or with an antenna that does not hear your own radio.\n\n\
        The floor is taken from the first second, in which nothing is detected. Bursts in up to half of that \
        time move it little; a primary user that sends throughout becomes the floor. --floor gives it instead.",
    after_long_help = "Examples:\n  \
        linkhold sense capture.sigmf-meta                        a recording: when was the channel taken?\n  \
        linkhold sense capture.sigmf-meta --band -50kHz..50kHz --json | jq 'select(.event==\"busy\")'\n  \
        linkhold sense capture.sigmf-meta --on-air 2.405GHz..2.407GHz --idle 200ms\n  \
        rtl_sdr -f 868.3M -s 2.4M - | \\\n    \
            linkhold sense --format cu8 --rate 2.4MHz --band -100kHz..100kHz --notch-dc\n  \
        rtl_sdr -f 868.3M -s 2.4M - | \\\n    \
            linkhold sense --format cu8 --rate 2.4MHz --signal /run/linkhold/agent.sock\n  \
        nc -l 5000 | linkhold sense --format cf32 --rate 200kHz  from GNU Radio's TCP sink\n\n\
        Output:\n  \
        A line for the floor, one for each busy and idle with its time in the input, and a summary. --json prints \
        the same as one object a line (linkhold.sense/1). Of a recording nothing is printed if it breaks half-way or is \
        stopped; with --signal it is read at the pace at which it was recorded, and lines come at once. A stream \
        that is stopped has its summary, which then says so.\n\n\
        Exit codes:\n  \
        0  the input was sensed to its end, or a stream until it was stopped\n  \
        1  the agent did not answer, at the start or once later (the rest was sensed)\n  \
        2  bad input: the command line, the recording or a sample; or the agent refuses and says why\n  \
        130  stopped by Ctrl-C within a recording, or while a stream hung (143 by SIGTERM, 129 by SIGHUP)"
)]
pub struct SenseArgs {
    /// A SigMF recording (its .sigmf-meta, its .sigmf-data, or the name without either), or - for raw samples
    /// on standard input.
    #[arg(value_name = "RECORDING", default_value = "-", value_hint = ValueHint::FilePath)]
    pub input: PathBuf,
    /// Form of raw samples: cf32 (GNU Radio), ci16, ci8 (hackrf_transfer) or cu8 (rtl_sdr).
    #[arg(long, value_enum, requires = "rate")]
    pub format: Option<FormatName>,
    /// Sample rate of raw samples, as in 2.4MHz.
    #[arg(long, value_name = "HZ", value_parser = frequency, allow_negative_numbers = true, requires = "format")]
    pub rate: Option<f64>,
    /// Centre frequency of raw samples, or of a recording that does not say it; only --on-air needs it.
    #[arg(long, value_name = "HZ", value_parser = frequency)]
    pub center: Option<f64>,
    /// The band to sense, from the centre frequency, as in -50kHz..50kHz [default: all that was sampled].
    #[arg(long, value_name = "FROM..TO", value_parser = band, allow_hyphen_values = true)]
    pub band: Option<(f64, f64)>,
    /// The same as frequencies on the air, as in 2.405GHz..2.407GHz.
    #[arg(long, value_name = "FROM..TO", value_parser = band, conflicts_with = "band")]
    pub on_air: Option<(f64, f64)>,
    /// Window of the Fourier transforms that cut out the band: hann keeps strong neighbours out, none is 1.4
    /// dB more sensitive [default: hann].
    #[arg(long, value_enum)]
    pub window: Option<WindowName>,
    /// Samples of a transform that cuts out the band: a power of two [default: 256].
    #[arg(long, value_name = "N")]
    pub fft: Option<usize>,
    /// Leave out the centre frequency, where cheap receivers have an offset.
    #[arg(long)]
    pub notch_dc: bool,
    /// Length of a block, for which one decision is made: longer blocks find weaker signals, but later.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration, allow_hyphen_values = true)]
    pub block: Duration,
    /// T_idle: time without a block above the threshold after which the primary user counts as gone.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration, allow_hyphen_values = true)]
    pub idle: Duration,
    /// Probability that noise is taken for a signal, for each block.
    #[arg(long, value_name = "P", default_value_t = 1e-6, allow_negative_numbers = true)]
    pub false_alarm: f64,
    /// How far the noise may rise above the known floor before false alarms pass --false-alarm, as in 0.5dB.
    #[arg(long, value_name = "DB", default_value = "0.5dB", value_parser = decibels, allow_hyphen_values = true)]
    pub uncertainty: f64,
    /// Take the noise floor from so much of the input, from its start.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration, allow_hyphen_values = true)]
    pub calibrate: Duration,
    /// The noise floor: power in the band, dB of full scale, as in -60dBFS (a run without it prints it).
    #[arg(long, value_name = "DBFS", value_parser = full_scale, allow_hyphen_values = true, conflicts_with = "calibrate")]
    pub floor: Option<f64>,
    /// Freeze and thaw whoever listens on this control socket: the agent's or a host's.
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub signal: Option<PathBuf>,
    /// The radio that is told of, by its interface [default: as for `linkhold signal`].
    #[arg(long, value_name = "INTERFACE", requires = "signal")]
    pub radio: Option<String>,
    /// Name of whoever sends the events; the agent's status counts them by this name.
    #[arg(long, value_name = "NAME", default_value = "sense", requires = "signal")]
    pub source: String,
    /// Print one JSON object a line (linkhold.sense/1).
    #[arg(long)]
    pub json: bool,
}

/// Decibels, their unit written or not.
fn decibels(text: &str) -> Result<f64, ValueError> {
    text.parse().or_else(|_| quantity::decibels(text))
}

/// Decibels of full scale, their unit written or not.
fn full_scale(text: &str) -> Result<f64, ValueError> {
    decibels(text.strip_suffix("FS").unwrap_or(text))
}

impl SenseArgs {
    /// The settings that these arguments mean for input of this rate and centre frequency, Hz. An error is
    /// one line that begins with the argument.
    pub fn settings(&self, rate: f64, center: Option<f64>) -> Result<Settings, String> {
        let unused = [("--fft", self.fft.is_some()), ("--window", self.window.is_some())];
        if let (None, None, Some((name, _))) =
            (self.band, self.on_air, unused.iter().find(|(_, is_given)| *is_given))
        {
            return Err(format!(
                "{name}: all that was sampled is sensed without Fourier transforms; give the band with --band or \
                 --on-air, or leave out {name}"
            ));
        }
        let band = match (self.band, self.on_air, center) {
            (band, None, _) => band,
            (_, Some((low, high)), Some(center)) => Some((low - center, high - center)),
            (_, Some(_), None) => {
                return Err("--on-air: the input's centre frequency is not known; give it with --center, \
                            or the band from the centre with --band"
                    .to_owned());
            }
        };
        Ok(Settings {
            rate,
            band,
            window: self.window.unwrap_or(WindowName::Hann).into(),
            fft: self.fft.unwrap_or(DEFAULT_FFT),
            notch_dc: self.notch_dc,
            block: self.block,
            idle: self.idle,
            false_alarm: self.false_alarm,
            uncertainty_db: self.uncertainty,
            floor: self.floor.map_or(FloorSource::Calibrate(self.calibrate), FloorSource::Given),
        })
    }
}

/// [`Format`] by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// Two 32-bit floats, low byte first.
    Cf32,
    /// Two 16-bit integers, low byte first.
    Ci16,
    /// Two signed bytes.
    Ci8,
    /// Two unsigned bytes.
    Cu8,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Cf32 => Self::Cf32,
            FormatName::Ci16 => Self::Ci16,
            FormatName::Ci8 => Self::Ci8,
            FormatName::Cu8 => Self::Cu8,
        }
    }
}

/// [`Window`] by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WindowName {
    /// Hann's.
    Hann,
    /// Every sample counts alike.
    None,
}

impl From<WindowName> for Window {
    fn from(name: WindowName) -> Self {
        match name {
            WindowName::Hann => Self::Hann,
            WindowName::None => Self::Rectangular,
        }
    }
}
