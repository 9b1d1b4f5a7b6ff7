//! What happens when something ends or goes wrong: the agent, its rivals, its clients.

use std::io::Write;
use std::time::{Duration, Instant};

use linkhold_linux::topology::Path;
use nix::sys::signal::Signal;

use crate::Outcome;
use crate::agent_process::AgentProcess;
use crate::behaviour::{MEGABYTE, mentions_us, rules};
use crate::transfer::{Amount, Transfer};

pub fn sigterm_lets_go() -> Outcome {
    let path = Path::build()?;
    let mut agent = AgentProcess::start(&path, "");
    assert!(mentions_us(&rules(&path.bs)));
    let transfer = Transfer::start(&path.ch, &path.sh, Path::SH_V4, 6500, Amount::Bytes(300 * MEGABYTE));
    transfer.wait_for(5 * MEGABYTE);
    agent.signal(r#"{"freeze":{}}"#);
    std::thread::sleep(Duration::from_millis(100));
    let held = agent.status().packets.held;
    assert!(held > 0, "nothing was held");
    let received = transfer.received();
    agent.send_signal(Signal::SIGTERM);
    transfer.wait_for(received + MEGABYTE);
    assert!(agent.wait(), "{}", agent.log());
    assert!(!mentions_us(&rules(&path.bs)), "{}", rules(&path.bs));
    assert!(!agent.socket.exists());
    transfer.finish();
    Ok(())
}

pub fn sigkill_in_a_silence() -> Outcome {
    let path = Path::build()?;
    let mut agent = AgentProcess::start(&path, "");
    let transfer = Transfer::start(&path.ch, &path.sh, Path::SH_V4, 6600, Amount::Bytes(300 * MEGABYTE));
    transfer.wait_for(5 * MEGABYTE);
    agent.signal(r#"{"freeze":{}}"#);
    // Long enough for the sender's timeout to back off, if its flight were lost.
    std::thread::sleep(Duration::from_millis(700));
    let received = transfer.received();
    agent.send_signal(Signal::SIGKILL);
    let killed = Instant::now();
    transfer.wait_for(received);
    let idle = killed.elapsed();
    assert!(idle < Duration::from_millis(100), "traffic stood still for {idle:?} after the kill");
    assert!(!agent.wait());
    transfer.finish();
    assert!(mentions_us(&rules(&path.bs)), "a killed agent cannot remove its rules");

    let mut next = AgentProcess::start(&path, "");
    assert!(next.log().contains("removed rules that an earlier agent left"), "{}", next.log());
    Transfer::start(&path.ch, &path.sh, Path::SH_V4, 6601, Amount::Bytes(5 * MEGABYTE)).finish();
    next.send_signal(Signal::SIGTERM);
    assert!(next.wait());
    assert!(!mentions_us(&rules(&path.bs)));
    Ok(())
}

pub fn hostile_clients() -> Outcome {
    use std::os::unix::net::UnixStream;
    let path = Path::build()?;
    let agent = AgentProcess::start(&path, "");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&agent.socket)?.permissions());
    assert_eq!(mode & 0o777, 0o600);
    let garbage: Vec<Vec<u8>> = vec![
        vec![0; 100_000],
        b"{".repeat(5000),
        b"\n".repeat(100_000),
        b"{\"event\":{\"freeze\":{\"for_s\":1e308}}}\n".repeat(500),
        b"{\"query\":\"status\"}\n".repeat(2000),
    ];
    for bytes in garbage {
        let mut client = UnixStream::connect(&agent.socket)?;
        client.set_write_timeout(Some(Duration::from_millis(500)))?;
        // It may cut us off in the middle: that is the point.
        let _ = client.write_all(&bytes);
    }
    // More clients than it takes, none of which says a word or leaves.
    let idle: Vec<_> = (0..40).map(|_| UnixStream::connect(&agent.socket)).collect();
    Transfer::start(&path.ch, &path.sh, Path::SH_V4, 6700, Amount::Bytes(20 * MEGABYTE)).finish();
    drop(idle);
    std::thread::sleep(Duration::from_millis(50));
    let status = agent.status();
    assert!(!status.silent && status.packets.seen > 300, "{status}");
    Ok(())
}

pub fn rivals() -> Outcome {
    let path = Path::build()?;
    let first = AgentProcess::start(&path, "");
    let installed = rules(&path.bs);
    for (instance, reason) in [
        ("test", "an agent called \"test\" runs here already"),
        ("other", "NFQUEUE 4710 is taken by another program"),
    ] {
        let mut second = AgentProcess::spawn_as(&path, instance, "", &[]);
        assert!(!second.wait(), "it ran");
        assert!(second.log().contains(reason), "{}", second.log());
    }
    assert_eq!(rules(&path.bs), installed);
    Transfer::start(&path.ch, &path.sh, Path::SH_V4, 6850, Amount::Bytes(5 * MEGABYTE)).finish();
    assert!(first.status().packets.seen > 0);
    Ok(())
}
