//! Tells the program which commit it is built from, as `LINKHOLD_COMMIT`. The Python package's module uses
//! this script, too.
//!
//! A build without Git or outside a checkout says `unknown`, unless the variable is set: a packager who
//! builds from an archive sets it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program consists of, from the root of the checkout.
const SOURCES: [&str; 5] = ["crates", "reproductions", "Cargo.toml", "Cargo.lock", "python/linkhold/src"];
/// Left out when sources are compared: pages, and what `scripts/testbed_table.py` writes. They are filled
/// after a measurement, and a program that is built beside them is still the one that was measured.
const FILLED: [&str; 2] = [":(exclude)*.md", ":(exclude)crates/linkhold-results/src/html/told_less.rs"];

fn main() {
    println!("cargo::rerun-if-env-changed=LINKHOLD_COMMIT");
    // In both packages that use this script; without any file Cargo would watch all of the package.
    println!("cargo::rerun-if-changed=Cargo.toml");
    let given = std::env::var("LINKHOLD_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(described).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=LINKHOLD_COMMIT={commit}");
}

/// The commit that is checked out, with `-dirty` at its end if a source differs from it.
fn described() -> Option<String> {
    let root = PathBuf::from(git(Path::new("."), &["rev-parse", "--show-toplevel"])?);
    let mut watched: Vec<PathBuf> = SOURCES.iter().map(|source| root.join(source)).collect();
    for name in ["HEAD", "logs/HEAD"] {
        watched.extend(git(&root, &["rev-parse", "--git-path", name]).map(|path| root.join(path)));
    }
    for path in watched.iter().filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    // Somebody else's repository, into which the sources were copied, says nothing about them.
    git(&root, &["ls-files", "--error-unmatch", "crates/linkhold/build.rs"])?;
    let commit = git(&root, &["rev-parse", "--short=12", "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--untracked-files=no", "--"];
    status.extend(SOURCES.iter().chain(&FILLED));
    let changed = git(&root, &status).is_none_or(|changes| !changes.is_empty());
    Some(if changed { format!("{commit}-dirty") } else { commit })
}

/// What Git answers, without the line break at its end; `None` if it fails.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
