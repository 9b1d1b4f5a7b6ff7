//! How fast packets go through the agent, beside plain forwarding in the same run. Not a test: it prints numbers.

use std::time::Duration;

use linkhold_linux::topology::Path;

use crate::Outcome;
use crate::agent_process::AgentProcess;
use crate::transfer::{Amount, Transfer};

const TIME: Duration = Duration::from_secs(3);

fn gbps(path: &Path, port: u16) -> f64 {
    let transfer = Transfer::start(&path.ch, &path.sh, Path::SH_V4, port, Amount::For(TIME));
    let finished = transfer.finish();
    finished.bytes as f64 * 8.0 / finished.took.as_secs_f64() / 1e9
}

pub fn measure() -> Outcome {
    let path = Path::build()?;
    let plain = gbps(&path, 5001);
    println!("plain forwarding       {plain:6.2} Gb/s");
    for (name, settings) in [
        ("agent, none", "[mechanism]\nname = \"none\"\n"),
        ("agent, hold-only", "[mechanism]\npreset = \"hold-only\"\n"),
        ("agent, dsasync", ""),
        ("agent, dsasync, 100 Gb/s known", "[channel]\ncapacity = \"100Gbit/s\"\n"),
    ] {
        let mut agent = AgentProcess::start(&path, settings);
        let with = gbps(&path, 5002);
        let status = agent.status();
        agent.send_signal(nix::sys::signal::Signal::SIGTERM);
        agent.wait();
        println!(
            "{name:30} {with:6.2} Gb/s  ratio {:.3}  {} packets, {} rewritten",
            with / plain,
            status.packets.seen,
            status.packets.rewritten
        );
    }
    let again = gbps(&path, 5003);
    println!("plain forwarding again {again:6.2} Gb/s");
    Ok(())
}
