//! `linkhold reproduce`: a paper's figures, measured again.

use std::path::Path;

use linkhold_reproduce::{Options, ReproduceError, reproduce, scenario_texts};
use linkhold_results::html::render_reproduce;
use linkhold_results::table::reproduce_table;

use crate::cli::ReproduceArgs;
use crate::output::{OutputFolder, print, width};
use crate::program::program;
use crate::progress::FigureProgress;
use crate::{Failure, interrupt};

/// Runs `linkhold reproduce`.
pub fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    let mut options = if args.quick { Options::QUICK } else { Options::FULL };
    if let Some(seeds) = args.seeds {
        options.seeds = seeds;
    }
    let out = match &args.out {
        Some(out) => Some(out.as_path()),
        None if args.json => None,
        None => Some(Path::new("out/reproduce")),
    };
    interrupt::watch()?;
    let folder = out.map(OutputFolder::prepare).transpose()?;
    let progress = FigureProgress::default();
    let report =
        super::on_pool(args.threads, || reproduce(args.selector.as_deref(), options, &progress, program()))?
            .map_err(|error| {
                let message = error.to_string();
                match error {
                    ReproduceError::Unknown { .. } => Failure::BadInput(message),
                    ReproduceError::Scenario { .. }
                    | ReproduceError::Run { .. }
                    | ReproduceError::Paper(_) => Failure::Failed(message),
                }
            })?;
    let json = super::to_json(&report)?;
    if let Some(folder) = folder {
        folder.write("reproduce.json", &json)?;
        folder.write("report.html", &render_reproduce(&report, &scenario_texts(args.selector.as_deref())))?;
        folder.finish()?;
    }
    if args.json {
        return print(&json);
    }
    print(&reproduce_table(&report, width()))?;
    match out {
        Some(out) => print(&format!("\nReport: {}\n", out.join("report.html").display())),
        None => Ok(()),
    }
}
