//! What a plan is, and how its conditions become runs.

use std::path::Path;

use linkhold_scenario::{Case, Scenario};

use crate::Answer;
use crate::findings::Findings;
use crate::runs::Runs;

/// A test for both stacks.
#[derive(Clone, Copy)]
pub struct Plan {
    /// What it proves, as the name of a test.
    pub name: &'static str,
    /// The same in a sentence or two, with what would make it fail.
    pub shows: &'static str,
    /// What is run. Plans may share conditions; a run that several need is made once.
    pub conditions: &'static [Conditions],
    /// What must hold, on each stack by itself.
    pub check: fn(&Runs, &mut Findings) -> Answer,
    /// What must hold of the two stacks (simulator, Linux) beside each other.
    pub agree: Option<fn(&Runs, &Runs, &mut Findings) -> Answer>,
}

/// A scenario with some of its cases, congestion controls and seeds: every combination is one run.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Short name, unique in a plan.
    pub name: &'static str,
    /// Where the scenario stands.
    pub scenario: Source,
    /// Settings laid over it, as `--set` takes them.
    pub set: &'static [&'static str],
    /// Those of its cases that run.
    pub cases: &'static [&'static str],
    /// The senders' congestion controls. What a stack has not got it does not run: a kernel may lack one.
    pub congestion: &'static [&'static str],
    /// Seeds.
    pub seeds: &'static [u64],
}

/// A scenario's text.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A file of the folder `scenarios`, read where it is.
    File(&'static str),
    /// The text itself.
    Text(&'static str),
}

/// What the simulator's senders can do of what conditions ask for.
const SIMULATED: [&str; 4] = ["reno", "cubic", "vegas", "bbr"];

/// One run that conditions ask for.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name of the conditions.
    pub conditions: &'static str,
    /// The case, with the congestion control where the simulator has it.
    pub case: Case,
    /// The senders' congestion control.
    pub congestion: &'static str,
    /// The seed.
    pub seed: u64,
}

impl Run {
    /// Whether the simulator has its congestion control.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        SIMULATED.contains(&self.congestion)
    }

    /// True if one run serves both: they differ in name at most.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        (self.congestion, self.seed, &self.case.scenario)
            == (other.congestion, other.seed, &other.case.scenario)
    }
}

impl Conditions {
    /// The runs: congestion control by congestion control, case by case, seed by seed.
    ///
    /// # Errors
    /// What is wrong with the scenario, or the name of a case that it has not got.
    pub fn runs(&self) -> Result<Vec<Run>, String> {
        let mut runs = Vec::new();
        for &congestion in self.congestion {
            let scenario = self.scenario(congestion)?;
            for &name in self.cases {
                let case = scenario.cases().into_iter().find(|case| case.name == name);
                let case = case.ok_or_else(|| format!("{}: there is no case {name}", self.name))?;
                runs.extend(self.seeds.iter().map(|&seed| Run {
                    conditions: self.name,
                    case: case.clone(),
                    congestion,
                    seed,
                }));
            }
        }
        Ok(runs)
    }

    fn scenario(&self, congestion: &str) -> Result<Scenario, String> {
        let mut set: Vec<String> = self.set.iter().map(|&one| one.to_owned()).collect();
        if SIMULATED.contains(&congestion) {
            set.push(format!("tcp.congestion={congestion}"));
        }
        match self.scenario {
            Source::File(file) => {
                let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
                Scenario::load(&folder.join(file), &set)
            }
            Source::Text(text) => Scenario::from_toml(text, self.name, &set),
        }
        .map_err(|error| format!("{}: {error}", self.name))
    }
}
