//! The linkhold scenario file: types, units, defaults, validation, errors that name file, line and key.
//!
//! ```
//! let text = r#"
//!     schema = "linkhold.scenario/1"
//!     name = "hello"
//!     duration = "20s"
//!     radio.phy_rate = "24Mbit/s"
//!     [[flows]]
//!     direction = "downlink"
//! "#;
//! let changes = ["router.limit=50pkt".to_owned()];
//! let scenario = linkhold_scenario::Scenario::from_toml(text, "hello.toml", &changes)?;
//! assert_eq!(scenario.cases()[0].name, "none");
//! # Ok::<(), linkhold_scenario::ScenarioError>(())
//! ```
#![forbid(unsafe_code)]

mod as_run;
mod dcf;
mod document;
mod file;
mod flows;
mod grants;
mod grants_keys;
mod hints;
mod ieee802154;
pub mod input;
mod link;
pub mod mechanism;
mod mesh;
mod mesh_keys;
mod mesh_summary;
pub mod model;
mod primary_user;
mod problem;
pub mod read;
mod resolve;
mod scalar;
mod snr;
mod source_value;
mod spots;
mod summary;
mod tcp;
mod told;
mod traces;

use std::path::Path;

use document::{Node, Origin, Sources, Value};
pub use input::STDIN;
pub use model::*;
pub use problem::{FileError, Location, Problem};
use read::{FromNode, Reader, Spot};
pub use scalar::{By, FORMAT, Positive};
pub use traces::{Files, NoFiles, System};

/// Why a scenario cannot be used: everything that is wrong with its file, its traces and the overrides.
pub type ScenarioError = FileError;

/// A scenario file, read and checked: its cases, each with everything filled in.
#[derive(Clone, Debug)]
pub struct Scenario {
    name: String,
    description: String,
    cases: Vec<Case>,
    as_run: String,
    sources: Sources,
    /// The document as each case sees it, with the case's `set` laid over it.
    documents: Vec<Node>,
    /// Hints of what the file says and no case uses.
    unused: Vec<String>,
}

/// Scenarios are equal if they run the same, however their files are written.
impl PartialEq for Scenario {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.description, &self.cases) == (&other.name, &other.description, &other.cases)
    }
}

impl Scenario {
    /// Reads a scenario file: a regular file, a pipe, or standard input if `path` is [`STDIN`].
    ///
    /// `set` are `key=value` overrides as on the command line, laid over the file before a case's own `set`.
    ///
    /// # Errors
    /// Everything that is wrong with the file, the traces it names and the overrides.
    pub fn load(path: &Path, set: &[String]) -> Result<Self, ScenarioError> {
        let shown = input::shown(path);
        let bytes = input::read(path, input::MAX_WRITTEN).map_err(|error| {
            let location = Location::File { file: shown.clone() };
            let what = format!("cannot read the scenario file: {error}");
            let right = "give the path of a scenario file; examples are in scenarios/".to_owned();
            ScenarioError::new(vec![Problem { location, key: String::new(), what, right }])
        })?;
        let text = input::text(bytes, &shown)?;
        Self::parse(&text, &shown, set, &System)
    }

    /// Reads a scenario from its text; `file` is its name in messages, and relative trace paths start beside
    /// it.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_toml(text: &str, file: &str, set: &[String]) -> Result<Self, ScenarioError> {
        Self::parse(text, file, set, &System)
    }

    /// As [`from_toml`](Self::from_toml), with files and environment variables from `files`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(text: &str, file: &str, set: &[String], files: &dyn Files) -> Result<Self, ScenarioError> {
        // Editors of Windows begin a file with a byte order mark. What is kept of the text may stand behind a
        // comment, where TOML has no place for one.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let sources = Sources::new(file, text, set);
        let table = document::parse(&sources).map_err(ScenarioError::new)?;
        let mut document = Node { value: Value::Table(table), origin: Origin::Default };
        let problems: Vec<Problem> = set
            .iter()
            .enumerate()
            .filter_map(|(index, text)| document::apply_override(&mut document, index, text, &sources).err())
            .collect();
        if !problems.is_empty() {
            return Err(ScenarioError::new(problems));
        }
        let mut traces = traces::Traces::new(files, file);
        let reader = Reader::new(&sources);
        let scenario = cases(&document, &sources, &reader, &mut traces);
        let words = reader.bare_words();
        let problems = reader.into_problems();
        match scenario {
            Some(mut scenario) if problems.is_empty() => {
                document::write_words(&mut document, &words, &sources);
                scenario.as_run = as_run::text(text, file, set, &mut document, &traces);
                Ok(scenario)
            }
            _ => Err(ScenarioError::new(problems)),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One or two sentences for the report; may be empty.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The scenario file that says what was run, to be kept beside the results: run again, from any folder
    /// and without overrides, it gives the same.
    ///
    /// It is the file's own text if nothing lay over it. Otherwise the overrides are in it, and traces are
    /// named by absolute paths; the comments of the original are lost then.
    #[must_use]
    pub fn as_run(&self) -> &str {
        &self.as_run
    }

    /// What is wrong at `key` (as in `flows[0].source`) of the case `name` for one who runs it: a problem
    /// with the place where the file, a `--set` or the case's own `set` says it. A key of the case's own
    /// table, such as `mechanism`, is looked for there first.
    #[must_use]
    pub fn problem(&self, name: &str, key: &str, what: &str, right: &str) -> Problem {
        let index = self.cases.iter().position(|case| case.name == name).unwrap_or(0);
        let root = Node { value: Value::Table(document::Table::default()), origin: Origin::Default };
        let document = self.documents.get(index).unwrap_or(&root);
        let own = format!("cases[{index}].{key}");
        let (key, origin) = match document::find(document, &own) {
            (origin, true) => (own.as_str(), origin),
            (_, false) => (key, document::find(document, key).0),
        };
        self.sources.problem(origin, key, format!("case {name}: {what}"), right)
    }

    /// What is valid and still probably not meant, a sentence each; most scenarios have none.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let mut hints = self.unused.clone();
        hints.extend(hints::hints(&self.cases));
        hints
    }

    /// The cases, in the file's order; at least one.
    #[must_use]
    pub fn cases(&self) -> Vec<Case> {
        self.cases.clone()
    }

    /// The scenario in words, fact by fact: what the fact is about ("router"), and the fact.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        summary::facts(&self.cases, None)
    }

    /// The same where the senders have the congestion controls `congestion`, whatever the file says.
    #[must_use]
    pub fn facts_under(&self, congestion: &str) -> Vec<(String, String)> {
        summary::facts(&self.cases, Some(congestion))
    }

    /// The scenario in words: the facts, a line each.
    #[must_use]
    pub fn summary(&self) -> String {
        summary::summary(&self.cases)
    }
}

/// Reads the file as it is, and once more for each case whose `set` changes keys.
fn cases(
    document: &Node,
    sources: &Sources,
    reader: &Reader<'_>,
    traces: &mut traces::Traces<'_>,
) -> Option<Scenario> {
    let spot = Spot::root();
    let file = file::File::from_node(document, &spot, reader)?;
    // The only version there is; a later one will branch here.
    let scalar::FormatVersion = file.schema.value;
    let (mut cases, mut documents) = (Vec::new(), Vec::new());
    if file.cases.is_empty() {
        let scenario = resolve::resolve(&file, None, reader, traces)?;
        cases.push(Case { name: "none".to_owned(), scenario });
        documents.push(document.clone());
    }
    for (index, case) in file.cases.iter().enumerate() {
        if file.cases[..index].iter().any(|earlier| earlier.name.0 == case.name.0) {
            let what = format!("there is a case `{}` already", case.name.0);
            reader.report(&case.name.spot, what, "give each case a name of its own");
        }
        let mut seen = document.clone();
        let resolved = match &case.set {
            None => resolve::resolve(&file, Some(case), reader, traces),
            Some(set) => {
                reader.add(document::apply_set(&mut seen, &set.0, &case.spot.key, sources));
                file::File::from_node(&seen, &spot, reader)
                    .and_then(|file| resolve::resolve(&file, Some(case), reader, traces))
            }
        };
        if let Some(scenario) = resolved {
            cases.push(Case { name: case.name.0.clone(), scenario });
            documents.push(seen);
        }
    }
    let runs = |name: &str| {
        let mechanisms = cases.iter().flat_map(|case| &case.scenario.mechanisms);
        mechanisms.into_iter().any(|placed| placed.settings.name() == name)
    };
    let unused = file.shared.unused(runs, reader);
    let (name, description) = (file.name.0.clone(), file.description.value.clone());
    let (as_run, sources) = (String::new(), sources.clone());
    Some(Scenario { name, description, cases, as_run, sources, documents, unused })
}

/// The JSON Schema of the file format, with descriptions, units and defaults.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::SchemaGenerator::default().into_root_schema_for::<file::File>().into()
}
