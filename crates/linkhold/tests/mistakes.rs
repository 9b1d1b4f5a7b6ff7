//! What the command says to what a stranger gets wrong at first: it is refused before anything is done, and the
//! message names what would be right.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const AGENT: &str = "wired = [\"eth0\"]\nradio = [\"wlan0\"]\n";
const HOST: &str = "radio = [\"wlan0\"]\n";

/// The command with `folder` as its working folder, and nothing to read.
fn linkhold(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("linkhold"));
    command.current_dir(folder).args(args).env_remove("LINKHOLD_DATA").stdin(Stdio::null());
    command
}

/// A folder with these files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    for (name, content) in files {
        fs::write(folder.path().join(name), content).expect("written");
    }
    folder
}

/// Expects this exit code and `message` on standard error.
#[track_caller]
fn tells(output: &Output, code: i32, message: &str) {
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains(message), "should tell: {message}\nbut told:    {told}");
    assert_eq!(output.status.code(), Some(code), "{told}");
}

#[test]
fn a_recording_overwrites_neither_its_configuration_nor_another_file() {
    for (command, config) in [("agent", AGENT), ("host", HOST)] {
        let files = [("a.toml", config.as_bytes()), ("s.toml", b"schema = \"linkhold.scenario/1\"\n")];
        let folder = folder(&files);
        for (file, message) in [
            ("a.toml", "--record a.toml: this is the configuration; name another file"),
            ("s.toml", "--record s.toml: there is a file already that is no recording of linkhold"),
        ] {
            let args = [command, "--config", "a.toml", "--record", file];
            tells(&linkhold(folder.path(), &args).output().expect("it starts"), 2, message);
        }
        for (name, content) in files {
            assert_eq!(fs::read(folder.path().join(name)).expect("read"), content, "{name}");
        }
        let args = [command, "--config", "a.toml", "--record", "r", "--record-limit", "0B"];
        let output = linkhold(folder.path(), &args).output().expect("it starts");
        tells(&output, 2, "\"0B\" has no room for more than a recording's head; write at least 64kB");
    }
}
