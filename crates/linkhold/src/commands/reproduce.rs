//! `linkhold reproduce`: a paper's figures, measured again.

mod linux;

use std::path::{Path, PathBuf};

use linkhold_reproduce::{
    Options, ReproduceError, Selection, check_selection, reproduce, reproduce_on, scenario_texts,
};
use linkhold_results::claims::reproduce_table;
use linkhold_results::html::render_reproduce;
use linkhold_results::{Figure, KernelPart, Program, ReproduceReport};
use serde::Serialize;

use crate::cli::{ReproduceArgs, ReproduceStack};
use crate::output::{OutputFolder, print, width};
use crate::program::program;
use crate::progress::FigureProgress;
use crate::{Failure, interrupt};

/// Runs `linkhold reproduce`.
pub fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    match args.stack {
        ReproduceStack::Simulator => {
            let of_the_kernel =
                [("--known", args.known), ("--resume", args.resume), ("--jobs", args.jobs.is_some())];
            match of_the_kernel.into_iter().find(|(_, given)| *given) {
                Some((option, _)) => Err(Failure::BadInput(format!(
                    "{option} is for --stack linux; a simulated run is not kept, and uses --threads"
                ))),
                None => simulate(args),
            }
        }
        ReproduceStack::Linux if args.known && !args.resume => Err(Failure::BadInput(
            "--known reports what commands with --resume have finished: give --resume, too".to_owned(),
        )),
        ReproduceStack::Linux => on_the_kernel(args),
    }
}

fn simulate(args: &ReproduceArgs) -> Result<(), Failure> {
    let out = args.folder("out/reproduce");
    interrupt::watch()?;
    let folder = out.as_deref().map(OutputFolder::prepare).transpose()?;
    let progress = FigureProgress::default();
    let report =
        super::on_pool(args.threads, || reproduce(&args.selection(), args.options(), &progress, program()))?
            .map_err(failure)?;
    deliver(args, folder, &report)
}

fn on_the_kernel(args: &ReproduceArgs) -> Result<(), Failure> {
    check_selection(&args.selection()).map_err(failure)?;
    let out = args.folder("out/reproduce-linux");
    let testbed = linux::Kernel::prepare(args, out.as_deref())?;
    let folder = out.as_deref().map(OutputFolder::prepare).transpose()?;
    let progress = FigureProgress::default();
    let report = super::on_pool(args.threads, || {
        reproduce_on(&testbed, &args.selection(), args.options(), &progress, program())
    })?
    .map_err(failure)?;
    deliver(args, folder, &report)?;
    // Who asks for what is known expects that some is not.
    let missing = report.kernel.map_or(0, |kernel| kernel.missing.len());
    if missing > 0 && !args.known {
        let way = if out.is_some() {
            "the same command with --resume runs them alone again"
        } else {
            "with --out DIR finished runs are kept, and --resume runs the others alone"
        };
        return Err(Failure::Failed(format!("{missing} runs have no result; the report names them; {way}")));
    }
    Ok(())
}

impl ReproduceArgs {
    fn options(&self) -> Options {
        Options { seeds: self.seeds, quick: self.quick, first_seed: self.first_seed }
    }

    fn selection(&self) -> Selection<'_> {
        Selection { selector: self.selector.as_deref(), figures: &self.figures }
    }

    /// Where files go; `None`: none are written.
    fn folder(&self, default: &str) -> Option<PathBuf> {
        match &self.out {
            Some(out) => Some(out.clone()),
            None if self.json && !self.resume => None,
            None => Some(Path::new(default).to_path_buf()),
        }
    }
}

fn failure(error: ReproduceError) -> Failure {
    let message = error.to_string();
    match error {
        ReproduceError::Unknown { .. } | ReproduceError::NotOnAKernel { .. } => Failure::BadInput(message),
        ReproduceError::Scenario { .. }
        | ReproduceError::Run { .. }
        | ReproduceError::Testbed(_)
        | ReproduceError::Paper(_) => Failure::Failed(message),
    }
}

/// The report as JSON has it: each figure says at which seed its repetitions began.
#[derive(Serialize)]
struct Written<'a> {
    schema: &'a str,
    program: &'a Program,
    figures: Vec<WrittenFigure<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<&'a KernelPart>,
}

#[derive(Serialize)]
struct WrittenFigure<'a> {
    #[serde(flatten)]
    figure: &'a Figure,
    first_seed: u64,
}

impl<'a> Written<'a> {
    fn of(report: &'a ReproduceReport, first_seed: u64) -> Self {
        let ReproduceReport { schema, program, figures, kernel } = report;
        let figures = figures.iter().map(|figure| WrittenFigure { figure, first_seed });
        Self { schema, program, figures: figures.collect(), kernel: kernel.as_ref() }
    }
}

/// Writes and prints the report.
fn deliver(
    args: &ReproduceArgs,
    folder: Option<OutputFolder>,
    report: &ReproduceReport,
) -> Result<(), Failure> {
    let json = super::to_json(&Written::of(report, args.first_seed))?;
    let mut written = None;
    if let Some(folder) = folder {
        folder.write("reproduce.json", &json)?;
        folder.write("report.html", &render_reproduce(report, &scenario_texts(&args.selection())))?;
        written = Some(folder.finish()?);
    }
    if args.json {
        return print(&json);
    }
    print(&reproduce_table(report, width()))?;
    match written {
        Some(out) => print(&format!("\nReport: {}\n", out.join("report.html").display())),
        None => Ok(()),
    }
}
