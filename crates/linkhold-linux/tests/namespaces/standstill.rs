//! What a test prints when something stands still that should move: where processes wait, and what the
//! kernel's queues and connections hold. Such a failure comes once in hundreds of runs on a loaded machine,
//! so its reason must be in the first output.

use std::fmt::Write;

use linkhold_linux::topology::ThreeHosts;

/// Where a process and its children wait.
pub fn processes(pid: u32) -> String {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let state = read("stat").rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?');
    let line = read("cmdline").replace('\0', " ");
    let mut text = format!("{pid} {state} {} {line}\n{}", read("wchan"), read("stack"));
    for child in read(&format!("task/{pid}/children")).split_whitespace().filter_map(|pid| pid.parse().ok()) {
        text.push_str(&processes(child));
    }
    text
}

/// Queues, rules and connections of a path, and where this test's processes wait.
pub fn of(path: &ThreeHosts) -> String {
    let mut text = String::new();
    for (name, netns, program, args) in [
        // Queue, reader, waiting, copy mode and range, dropped for a full queue, dropped for a full socket,
        // last id.
        ("queues", &path.bs, "cat", &["/proc/net/netfilter/nfnetlink_queue"][..]),
        ("rules", &path.bs, "iptables", &["-w", "10", "-t", "mangle", "-S"]),
        ("correspondent host", &path.ch, "ss", &["-tinmo"]),
        ("station", &path.sh, "ss", &["-tinmo"]),
    ] {
        let said = netns.run(program, args).unwrap_or_else(|error| error.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}:\n{said}");
    }
    text.push_str("processes:\n");
    text.push_str(&processes(std::process::id()));
    text
}
