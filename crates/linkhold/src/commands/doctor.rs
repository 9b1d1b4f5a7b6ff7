//! `linkhold doctor`: says what this machine can run.

use linkhold_linux::agent::AgentConfig;
use linkhold_linux::doctor::{DoctorReport, Subject, doctor};
use linkhold_results::Program;
use serde::Serialize;

use crate::Failure;
use crate::cli::{DoctorArgs, DoctorSubject};
use crate::output::print;
use crate::program::program;

/// What `--json` prints.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    report: &'a DoctorReport,
    program: Program,
    runs: Runs,
}

/// What runs here.
#[derive(Serialize)]
struct Runs {
    simulator: bool,
    testbed: bool,
    host: bool,
    agent: bool,
}

/// Runs `linkhold doctor`; fails if what was asked about cannot run here.
pub fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let config = match &args.config {
        Some(path) => {
            let read = match args.about {
                Some(DoctorSubject::Host) => AgentConfig::load_host(path),
                Some(DoctorSubject::Agent | DoctorSubject::Testbed) | None => AgentConfig::load(path),
            };
            Some(read.map_err(|error| Failure::BadInput(error.to_string()))?)
        }
        None => None,
    };
    let report = doctor(config.as_ref());
    let about = args.about.map(subject);
    let missing = missing(&report, about);
    let (agent, testbed, host) = (report.agent_runs(), report.testbed_runs(), report.host_runs());
    let report = match about {
        Some(subject) => report.narrowed(subject),
        None => report,
    };
    if args.json {
        let runs = Runs { simulator: true, testbed, host, agent };
        print(&super::to_json(&Told { report: &report, program: program(), runs })?)?;
    } else {
        print(&format!("{report}\n"))?;
    }
    missing.map_or(Ok(()), |missing| Err(Failure::Failed(missing)))
}

const fn subject(about: DoctorSubject) -> Subject {
    match about {
        DoctorSubject::Agent => Subject::Agent,
        DoctorSubject::Testbed => Subject::Testbed,
        DoctorSubject::Host => Subject::Host,
    }
}

/// What of that which was asked about does not run here, or sees not all that its configuration names.
fn missing(report: &DoctorReport, about: Option<Subject>) -> Option<String> {
    let called = |subject| match subject {
        Subject::Agent => "the agent",
        Subject::Testbed => "the testbed",
        Subject::Host => "the host's agent",
    };
    let asked = || Subject::ALL.into_iter().filter(|one| about.is_none_or(|about| about == *one));
    if !asked().all(|subject| report.runs(subject)) {
        let what = about.map(|subject| format!("{} does not run here", called(subject)));
        return Some(what.unwrap_or_else(|| "not everything runs here".to_owned()));
    }
    let unseen = |subject| Some(format!("{} runs here, but {}", called(subject), report.unseen(subject)?));
    asked().find_map(unseen)
}
