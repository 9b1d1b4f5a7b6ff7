//! The agent as a process of its own in the base station's namespace.

use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use linkhold_core::units::Bytes;
use linkhold_linux::agent::{
    self, ClientError, Recording,
    protocol::{Event, Message, Reply},
    status::Status,
};
use linkhold_linux::netns::NetNs;
use linkhold_linux::topology;
use linkhold_results::Program;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Environment variable: if it names a configuration file, this program is the agent.
pub const ROLE: &str = "LINKHOLD_TEST_AGENT";

/// Environment variable: if it is set, the configuration is that of `linkhold host`.
#[allow(dead_code)] // The benchmark, which shares this file, has no host.
pub const HOST: &str = "LINKHOLD_TEST_HOST";

/// Environment variable: the file to which the agent records.
pub const RECORD: &str = "LINKHOLD_TEST_RECORD";
/// Longest recording, bytes.
pub const RECORD_LIMIT: u64 = 1_000_000;

/// Version and commit that the agent is told to be of.
pub const VERSION: &str = "1.2.3";
pub const COMMIT: &str = "abc1234";

/// Runs this process as the agent.
pub fn be_the_agent(config: &Path) -> ExitCode {
    agent::init_logging().expect("a level");
    let recording =
        std::env::var_os(RECORD).map(|file| Recording { file: file.into(), limit: Bytes(RECORD_LIMIT) });
    let run =
        if std::env::var_os(HOST).is_some() { linkhold_linux::host::run_host } else { agent::run_agent };
    match run(config, recording.as_ref(), &Program::new(VERSION, COMMIT)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// As many looks, 2 ms apart, as take `limit`. Looks are counted instead of time: if the whole machine stands
/// still for a while, the agent has not had that time either.
fn patience(limit: Duration) -> impl Iterator<Item = ()> {
    let pause = Duration::from_millis(2);
    let looks = limit.as_millis() / pause.as_millis();
    (0..looks).map(move |look| {
        if look > 0 {
            std::thread::sleep(pause)
        }
    })
}

/// A running agent; killed and waited for when dropped.
pub struct AgentProcess {
    child: Child,
    pub socket: PathBuf,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl AgentProcess {
    /// Starts an agent on the base station; `settings` is added to the smallest configuration.
    pub fn start(path: &topology::ThreeHosts, settings: &str) -> Self {
        Self::start_with(path, settings, &[])
    }

    /// As `start`, by a program that runs its last argument (to take privileges away).
    pub fn start_with(path: &topology::ThreeHosts, settings: &str, wrapper: &[&str]) -> Self {
        let mut this = Self::spawn(path, settings, wrapper);
        this.wait_until_it_listens();
        this
    }

    /// As `start_with`, without waiting until it listens.
    pub fn spawn(path: &topology::ThreeHosts, settings: &str, wrapper: &[&str]) -> Self {
        Self::spawn_as(path, "test", settings, wrapper)
    }

    /// As `spawn`, under another name than `test`.
    pub fn spawn_as(path: &topology::ThreeHosts, instance: &str, settings: &str, wrapper: &[&str]) -> Self {
        let interfaces = format!("wired = [\"{}\"]\nradio = [\"{}\"]", topology::WIRED, topology::RADIO);
        Self::spawn_between(path, instance, &interfaces, settings, wrapper)
    }

    /// As `start`, between other interfaces: the lines `wired` and `radio` of the configuration.
    pub fn start_between(path: &topology::ThreeHosts, interfaces: &str, settings: &str) -> Self {
        let mut this = Self::spawn_between(path, "test", interfaces, settings, &[]);
        this.wait_until_it_listens();
        this
    }

    /// As `start_between`, without waiting until it listens.
    pub fn spawn_between(
        path: &topology::ThreeHosts,
        instance: &str,
        interfaces: &str,
        settings: &str,
        wrapper: &[&str],
    ) -> Self {
        let text = format!("instance = \"{instance}\"\n{interfaces}\n");
        Self::spawn_in(&path.bs, &text, settings, wrapper, None)
    }

    /// A host of its own in a namespace, whose radio is the interface that it has; `settings` begin with keys
    /// outside tables.
    #[allow(dead_code)] // The benchmark, which shares this file, has no host.
    pub fn host(netns: &NetNs, keys: &str, settings: &str) -> Self {
        let text = format!("radio = [\"{}\"]\n{keys}\n", topology::HOST);
        let mut this = Self::spawn_in(netns, &text, settings, &[], Some(HOST));
        this.wait_until_it_listens();
        this
    }

    fn spawn_in(netns: &NetNs, keys: &str, settings: &str, wrapper: &[&str], seat: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = folder.path().join("agent.sock");
        let config = folder.path().join("agent.toml");
        let log = folder.path().join("agent.log");
        let text = format!("{keys}[control]\nsocket = {socket:?}\n{settings}");
        std::fs::write(&config, text).expect("write the configuration");
        let program = std::env::current_exe().expect("this program's path");
        let output = std::fs::File::create(&log).expect("create the log");
        let words: Vec<&str> =
            wrapper.iter().copied().chain([program.to_str().expect("a path in UTF-8")]).collect();
        let child = netns
            .command(words[0])
            .args(&words[1..])
            .env(ROLE, &config)
            .envs(seat.map(|seat| (seat, "yes")))
            .env("LINKHOLD_LOG", std::env::var("LINKHOLD_LOG").unwrap_or_else(|_| "info".to_owned()))
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .expect("start the agent");
        Self { child, socket, log, _folder: folder }
    }

    pub fn wait_until_it_listens(&mut self) {
        assert!(self.listens(), "the agent does not start:\n{}", self.log());
    }

    /// Waits until it listens; false if it ends instead.
    pub fn listens(&mut self) -> bool {
        for _ in patience(Duration::from_secs(15)) {
            if agent::status(&self.socket).is_ok() {
                return true;
            }
            if self.child.try_wait().expect("the agent's state").is_some() {
                return false;
            }
        }
        panic!(
            "the agent does not start:\n{}\n{}",
            self.log(),
            crate::standstill::processes(self.child.id())
        );
    }

    pub fn status(&self) -> Status {
        agent::status(&self.socket).unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Waits until the agent's status is as wanted.
    pub fn wait_until(&self, wanted: impl Fn(&Status) -> bool) -> Status {
        let deadline = Instant::now() + Duration::from_secs(15);
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{status}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Tells the agent what happened on the radio; the event is JSON.
    pub fn signal(&self, event: &str) {
        let event: Event = serde_json::from_str(event).expect("an event");
        agent::signal(&self.socket, "test", event).unwrap_or_else(|error| panic!("{error}\n{}", self.log()));
    }

    /// Sends the agent a whole message, as JSON; answers what it replies, or why it refuses.
    pub fn ask(&self, message: &str) -> Result<Reply, ClientError> {
        let message: Message = serde_json::from_str(message).expect("a message");
        agent::client::send(&self.socket, &message)
    }

    /// Sends the agent a whole message, as JSON.
    pub fn say(&self, message: &str) {
        self.ask(message).unwrap_or_else(|error| panic!("{error}\n{}", self.log()));
    }

    pub fn send_signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("send a signal");
    }

    /// The agent's one child, the guardian.
    pub fn child(&self) -> Pid {
        let id = self.child.id();
        let path = format!("/proc/{id}/task/{id}/children");
        let children = std::fs::read_to_string(path).expect("the agent lives");
        Pid::from_raw(children.trim().parse().unwrap_or_else(|_| panic!("not one child: {children:?}")))
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the agent's end; true if it ended without an error.
    pub fn wait(&mut self) -> bool {
        for _ in patience(Duration::from_secs(30)) {
            if let Some(status) = self.child.try_wait().expect("the agent's state") {
                return status.success();
            }
        }
        panic!("the agent does not end:\n{}\n{}", self.log(), crate::standstill::processes(self.child.id()));
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
