//! `linkhold doctor`: says what this machine can run.

use linkhold_linux::agent::AgentConfig;
use linkhold_linux::doctor::{DoctorReport, doctor};
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
    let (agent, testbed, host) = (report.agent_runs(), report.testbed_runs(), report.host_runs());
    if args.json {
        let runs = Runs { simulator: true, testbed, host, agent };
        print(&super::to_json(&Told { report: &report, program: program(), runs })?)?;
    } else {
        print(&format!("{report}\n"))?;
    }
    let missing = match args.about {
        Some(DoctorSubject::Agent) if !agent => "the agent does not run here",
        Some(DoctorSubject::Testbed) if !testbed => "the testbed does not run here",
        Some(DoctorSubject::Host) if !host => "the host's agent does not run here",
        None if !agent || !testbed || !host => "not everything runs here",
        Some(_) | None => return Ok(()),
    };
    Err(Failure::Failed(missing.to_owned()))
}
