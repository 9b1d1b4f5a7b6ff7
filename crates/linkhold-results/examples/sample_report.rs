//! Writes the reports and Parquet files of made-up results, to look at them: `sample_report FOLDER`.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use linkhold_results::parquet::ParquetFiles;
use linkhold_results::{claims, html, sample, table};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("usage: sample_report FOLDER")?);
    fs::create_dir_all(&folder)?;
    let (report, series) = sample::run(10);
    let mut files = ParquetFiles::create(&folder, &report.program)?;
    for (run, over_time) in report.runs.iter().zip(&series) {
        files.add(run, over_time)?;
    }
    files.finish()?;
    let scenario = "schema = \"linkhold.scenario/1\"\nname = \"made-up <sample>\"\nduration = \"60s\"\n";
    fs::write(folder.join("run.html"), html::render_run(&report, &series, scenario))?;
    let (report, mut series) = sample::run(2);
    sample::with_mesh(&mut series, 15, 40);
    fs::write(folder.join("mesh.html"), html::render_run(&report, &series, scenario))?;
    let mut reproduce = sample::reproduce();
    reproduce.figures.push(sample::surface());
    let texts = [("dsasync/fig4".to_owned(), scenario.to_owned())];
    fs::write(folder.join("reproduce.html"), html::render_reproduce(&reproduce, &texts))?;
    print!("{}{}", table::run_table(&report, None), claims::reproduce_table(&reproduce, None));
    Ok(())
}
