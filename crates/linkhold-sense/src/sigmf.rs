//! SigMF recordings: a file of samples (`.sigmf-data`) and JSON that describes it (`.sigmf-meta`).
//!
//! Source: SigMF 1.2, "Global object" and "Captures array". Read are one channel of the forms in [`Format`],
//! the sample rate, the centre frequency, header and trailing bytes, and a data file by another name
//! (`core:dataset`). Refused is what would be read wrongly: several channels, metadata without samples, a
//! centre frequency that changes, header bytes within. Annotations, checksums and extensions are not looked
//! at.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::sample::Format;

/// Longest metadata that are read, bytes.
const LONGEST_META: u64 = 16 << 20;
const META: &str = "sigmf-meta";
const DATA: &str = "sigmf-data";

/// Why metadata cannot be used. As text it begins with the key or the place, and is one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MetaError(String);

/// Why a recording cannot be read. As text it begins with the file.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file is not there or cannot be read.
    #[error("{}: {source}{hint}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// The metadata cannot be used.
    #[error("{}: {source}", path.display())]
    Meta {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: MetaError,
    },
    /// The samples cannot be what the metadata say.
    #[error("{}: {what}", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what would be right.
        what: String,
    },
}

/// What the metadata say.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    /// Form of the samples.
    pub format: Format,
    /// Sample rate, Hz; above 0.
    pub rate: f64,
    /// Centre frequency, Hz.
    pub frequency: Option<f64>,
    /// Bytes before the first sample.
    pub header_bytes: u64,
    /// Bytes behind the last.
    pub trailing_bytes: u64,
    /// Name of the data file, where it is not the metadata's.
    pub dataset: Option<String>,
}

#[derive(Deserialize)]
struct Document {
    global: Global,
    #[serde(default)]
    captures: Vec<Capture>,
}

#[derive(Deserialize)]
struct Global {
    #[serde(rename = "core:datatype")]
    datatype: Option<String>,
    #[serde(rename = "core:sample_rate")]
    sample_rate: Option<f64>,
    #[serde(rename = "core:num_channels")]
    num_channels: Option<u64>,
    #[serde(rename = "core:trailing_bytes")]
    trailing_bytes: Option<u64>,
    #[serde(rename = "core:metadata_only")]
    metadata_only: Option<bool>,
    #[serde(rename = "core:dataset")]
    dataset: Option<String>,
}

#[derive(Deserialize)]
struct Capture {
    #[serde(rename = "core:frequency")]
    frequency: Option<f64>,
    #[serde(rename = "core:header_bytes")]
    header_bytes: Option<u64>,
}

impl Metadata {
    /// Reads metadata.
    ///
    /// # Errors
    /// [`MetaError`] names the key, or line and column where it is no JSON.
    pub fn parse(text: &[u8]) -> Result<Self, MetaError> {
        let wrong = |key: &str, what: String| MetaError(format!("{key}: {what}"));
        let Document { global, captures } =
            serde_json::from_slice(text).map_err(|error| MetaError(no_metadata(&error)))?;
        let datatype = global.datatype.ok_or_else(|| {
            wrong(
                "global.core:datatype",
                "is missing; it names the form of samples, as in \"cf32_le\"".to_owned(),
            )
        })?;
        let format = Format::of_datatype(&datatype).ok_or_else(|| {
            let known = Format::ALL.map(|(_, format)| format.datatype()).join(", ");
            let shown: String = datatype.chars().take(40).collect();
            wrong("global.core:datatype", format!("{shown:?} cannot be read; convert to one of {known}"))
        })?;
        let rate = global.sample_rate.ok_or_else(|| {
            wrong("global.core:sample_rate", "is missing; without it no time is known".to_owned())
        })?;
        if !(rate > 0.0 && rate.is_finite()) {
            return Err(wrong("global.core:sample_rate", format!("{rate} is not above 0")));
        }
        if let Some(channels) = global.num_channels.filter(|&channels| channels != 1) {
            let what = format!("{channels} channels cannot be read; split them into recordings of one");
            return Err(wrong("global.core:num_channels", what));
        }
        if global.metadata_only == Some(true) {
            return Err(wrong(
                "global.core:metadata_only",
                "there are no samples with these metadata".to_owned(),
            ));
        }
        let frequency = captures.first().and_then(|capture| capture.frequency);
        if let Some((index, capture)) =
            captures.iter().enumerate().find(|(_, capture)| capture.frequency != frequency)
        {
            let told = |frequency: Option<f64>| frequency.map_or("none".to_owned(), |hz| format!("{hz} Hz"));
            let what = format!(
                "the centre changes from {} to {}; cut the recording there",
                told(frequency),
                told(capture.frequency)
            );
            return Err(wrong(&format!("captures[{index}].core:frequency"), what));
        }
        let within = |capture: &Capture| capture.header_bytes.is_some_and(|bytes| bytes > 0);
        if let Some(index) = captures.iter().skip(1).position(within) {
            let what = "there are bytes that are no samples within the file; cut it there".to_owned();
            return Err(wrong(&format!("captures[{}].core:header_bytes", index + 1), what));
        }
        // A name from a file must not lead out of its folder.
        if let Some(name) = &global.dataset
            && (Path::new(name).file_name() != Some(OsStr::new(name)) || name.contains(['\\', '\0']))
        {
            return Err(wrong("global.core:dataset", "is no name of a file beside this one".to_owned()));
        }
        Ok(Self {
            format,
            rate,
            frequency,
            header_bytes: captures.first().and_then(|capture| capture.header_bytes).unwrap_or(0),
            trailing_bytes: global.trailing_bytes.unwrap_or(0),
            dataset: global.dataset,
        })
    }
}

/// A recording whose data file is open at its first sample.
#[derive(Debug)]
pub struct Recording {
    /// What the metadata say.
    pub meta: Metadata,
    /// Samples in it.
    pub samples: u64,
    /// The bytes of the samples.
    pub data: Take<File>,
}

impl Recording {
    /// Opens a recording by either of its files, or by what their names have in common.
    ///
    /// # Errors
    /// [`OpenError`] names the file and what is wrong with it; a data file that is no whole number of samples
    /// is refused, too.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let meta_path = meta_path(path);
        let meta_error = |source| OpenError::File {
            path: meta_path.clone(),
            source,
            hint: "; a SigMF recording needs its metadata. For raw samples write `--format cu8 --rate HZ - < FILE`",
        };
        let mut text = Vec::new();
        let file = File::open(&meta_path).map_err(meta_error)?;
        file.take(LONGEST_META + 1).read_to_end(&mut text).map_err(meta_error)?;
        let bad = |source| OpenError::Meta { path: meta_path.clone(), source };
        if text.len() as u64 > LONGEST_META {
            return Err(bad(MetaError("these metadata are longer than 16 MiB".to_owned())));
        }
        let meta = Metadata::parse(&text).map_err(bad)?;
        let data_path = match &meta.dataset {
            Some(name) => meta_path.with_file_name(name),
            None => meta_path.with_extension(DATA),
        };
        let data_error = |source| OpenError::File { path: data_path.clone(), source, hint: "" };
        let mut file = File::open(&data_path).map_err(data_error)?;
        let length = file.metadata().map_err(data_error)?.len();
        let wrong = |what: String| OpenError::Data { path: data_path.clone(), what };
        let bytes = length
            .checked_sub(meta.header_bytes)
            .and_then(|rest| rest.checked_sub(meta.trailing_bytes))
            .ok_or_else(|| wrong(format!("{length} bytes are less than its header and trailing bytes")))?;
        let size = meta.format.size() as u64;
        if bytes == 0 {
            return Err(wrong("there is no sample in it".to_owned()));
        }
        if !bytes.is_multiple_of(size) {
            return Err(wrong(format!(
                "truncated, or not {}: {bytes} bytes are no whole number of samples of {size} bytes",
                meta.format.datatype()
            )));
        }
        file.seek(SeekFrom::Start(meta.header_bytes)).map_err(data_error)?;
        Ok(Self { samples: bytes / size, data: file.take(bytes), meta })
    }
}

/// What serde says of JSON that is none, or of another kind, in one line and with the place in front.
fn no_metadata(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    let what: String = what.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{}:{}: no SigMF metadata: {what}", error.line(), error.column())
}

/// The metadata's file of a recording that is named by it, by its data, or by what both have in common.
fn meta_path(path: &Path) -> PathBuf {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(META) => path.to_owned(),
        Some(DATA) => path.with_extension(META),
        _ => {
            let mut name: OsString = path.as_os_str().to_owned();
            name.push(".");
            name.push(META);
            PathBuf::from(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"global":{"core:datatype":"ci16_le","core:sample_rate":2e5,"core:version":"1.2.0"},
        "captures":[{"core:sample_start":0,"core:frequency":2.1e9,"core:header_bytes":4},
                    {"core:sample_start":7,"core:frequency":2.1e9}],"annotations":[]}"#;

    #[test]
    fn metadata_are_read() {
        let meta = Metadata::parse(GOOD.as_bytes()).expect("they are right");
        assert_eq!((meta.format, meta.rate, meta.frequency), (Format::Ci16, 2e5, Some(2.1e9)));
        assert_eq!((meta.header_bytes, meta.trailing_bytes, meta.dataset), (4, 0, None));
    }

    #[test]
    fn metadata_that_would_be_read_wrongly_are_refused() {
        for (from, to, message) in [
            ("\"core:datatype\":\"ci16_le\",", "", "global.core:datatype: is missing"),
            (
                "ci16_le",
                "ri16_le",
                "global.core:datatype: \"ri16_le\" cannot be read; convert to one of cf32_le",
            ),
            ("ci16_le", "ci16_be", "\"ci16_be\" cannot be read"),
            ("\"core:sample_rate\":2e5,", "", "global.core:sample_rate: is missing"),
            ("2e5", "0", "global.core:sample_rate: 0 is not above 0"),
            ("2e5", "\"fast\"", "1:62: no SigMF metadata: invalid type: string \"fast\", expected f64"),
            ("\"core:version\":\"1.2.0\"", "\"core:num_channels\":2", "global.core:num_channels: 2 channels"),
            (
                "\"core:version\":\"1.2.0\"",
                "\"core:metadata_only\":true",
                "global.core:metadata_only: there are no",
            ),
            ("\"core:version\":\"1.2.0\"", "\"core:dataset\":\"../x\"", "global.core:dataset: is no name"),
            (
                "7,\"core:frequency\":2.1e9",
                "7,\"core:frequency\":3e9",
                "captures[1].core:frequency: the centre",
            ),
            ("7,", "7,\"core:header_bytes\":9,", "captures[1].core:header_bytes: there are bytes"),
            ("{\"global\"", "[", "1:"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let error = Metadata::parse(text.as_bytes()).expect_err(message).to_string();
            assert!(error.contains(message), "should tell {message:?}, told {error:?}");
        }
        assert!(Metadata::parse(b"").is_err());
    }

    #[test]
    fn a_recording_has_three_names() {
        for name in ["a/b.sigmf-meta", "a/b.sigmf-data", "a/b"] {
            assert_eq!(meta_path(Path::new(name)), Path::new("a/b.sigmf-meta"), "{name}");
        }
        assert_eq!(meta_path(Path::new("v1.2")), Path::new("v1.2.sigmf-meta"));
    }
}
