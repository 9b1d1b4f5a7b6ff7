//! Compiles the eBPF congestion controls (feature `struct-ops`) with clang; without the feature it does
//! nothing, so that a machine without clang builds everything else.

use std::path::PathBuf;
use std::process::Command;

const SOURCES: &str = "src/host/bpf";

fn main() {
    println!("cargo::rerun-if-changed={SOURCES}");
    println!("cargo::rerun-if-env-changed=CLANG");
    if std::env::var_os("CARGO_FEATURE_STRUCT_OPS").is_none() {
        return;
    }
    if let Err(message) = compile() {
        println!("cargo::error={message}");
    }
}

fn compile() -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR: run by cargo only")?);
    // The registers that hold a program's arguments differ between machines (bpf_tracing.h).
    let machine = match std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default().as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        "riscv64" => "riscv",
        "powerpc64" => "powerpc",
        "s390x" => "s390",
        other => return Err(format!("feature `struct-ops`: no eBPF registers known for {other}")),
    };
    let mut command = Command::new(&clang);
    // -g: the loader finds structures by their types (BTF).
    command.args(["-O2", "-g", "-target", "bpf", "-Wall", "-Wextra", "-Wno-unused-parameter"]);
    command.arg(format!("-D__TARGET_ARCH_{machine}"));
    command.arg("-c").arg(format!("{SOURCES}/cr_aware.bpf.c")).arg("-o").arg(out.join("cr_aware.bpf.o"));
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).replace('\n', " | ");
            Err(format!("feature `struct-ops`: {clang} refuses {SOURCES}/cr_aware.bpf.c: {said}"))
        }
        Err(error) => Err(format!(
            "feature `struct-ops` needs clang, and `{clang}` cannot be run ({error}); install clang and libbpf-dev, \
             or build without the feature"
        )),
    }
}
