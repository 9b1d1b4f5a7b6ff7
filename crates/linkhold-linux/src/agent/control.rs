//! The control socket (Unix) and the metrics port (loopback), both served from the event loop.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;

use super::config::{ControlSection, MetricsSection};
use super::connection::{Connection, Turn};
use super::protocol::MAX_LINE;

/// Most scrapers of metrics at once; more wait in the kernel's backlog.
const MAX_SCRAPERS: usize = 4;
/// A scraper's connection is closed after this time.
const SCRAPE_TIME_LIMIT: Duration = Duration::from_secs(5);
/// Most clients taken from the backlog in one turn.
const ACCEPTS_PER_TURN: usize = 8;

/// Why the socket or the port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Another agent answers there.
    #[error("{0}: another agent listens there; stop it, or set `control.socket`")]
    SocketTaken(PathBuf),
    /// The system refuses.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// Answers what clients ask.
pub trait Service {
    /// Answers a line of the control socket.
    fn answer_line(&mut self, line: &[u8], out: &mut Vec<u8>);
    /// The metrics' text.
    fn metrics_text(&mut self) -> String;
}

/// A client of the control socket.
#[derive(Debug)]
struct Client {
    connection: Connection<UnixStream>,
    /// When its last line was answered, or when it came.
    heard: Instant,
}

impl Client {
    /// Reads and answers what it has said.
    fn take_turn(&mut self, service: &mut impl Service) -> Turn {
        let mut said_something = false;
        let turn = self.connection.take_turn(|line, out| {
            said_something = true;
            if !line.is_empty() {
                service.answer_line(line, out);
            }
            true
        });
        if said_something {
            self.heard = Instant::now();
        }
        turn
    }

    /// True if none of its lines waits for an answer, and no answer for it to read.
    fn is_idle(&self) -> bool {
        !self.connection.has_line() && !self.connection.wants_to_write()
    }
}

/// Listeners and clients.
#[derive(Debug)]
pub struct Control {
    socket_path: PathBuf,
    listener: UnixListener,
    clients: Vec<Client>,
    max_clients: usize,
    /// Clients that had to leave for others.
    displaced: u64,
    metrics: Option<TcpListener>,
    metrics_trouble: Option<String>,
    scrapers: Vec<(Connection<TcpStream>, Instant)>,
}

impl Control {
    /// Opens the control socket, and the metrics port if one is configured. Without its metrics an agent
    /// still does its work, so a port that cannot be had is a trouble in words, not an error.
    ///
    /// # Errors
    /// [`ControlError`] if another agent is there or the system refuses.
    pub fn open(control: &ControlSection, metrics: &MetricsSection) -> Result<Self, ControlError> {
        let listener = open_socket(&control.socket, control.mode.0)?;
        // From here on, dropping `this` removes the socket file.
        let mut this = Self {
            socket_path: control.socket.clone(),
            listener,
            clients: Vec::new(),
            max_clients: control.max_clients,
            displaced: 0,
            metrics: None,
            metrics_trouble: None,
            scrapers: Vec::new(),
        };
        if let Some(address) = metrics.listen {
            let listener = TcpListener::bind(address)
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
            match listener {
                Ok(listener) => this.metrics = Some(listener),
                Err(error) => {
                    let trouble = format!(
                        "no metrics: cannot listen on {address} ({error}); free the port or change `metrics.listen`, \
                         and restart the agent"
                    );
                    tracing::warn!("{trouble}");
                    this.metrics_trouble = Some(trouble);
                }
            }
        }
        Ok(this)
    }

    /// Why there are no metrics though they are configured.
    #[must_use]
    pub fn metrics_trouble(&self) -> Option<&str> {
        self.metrics_trouble.as_deref()
    }

    /// What to poll: descriptor, and what for.
    pub fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let reads = PollFlags::POLLIN;
        let has_room = self.clients.len() < self.max_clients || self.clients.iter().any(Client::is_idle);
        let listener = has_room.then(|| (self.listener.as_fd(), reads));
        let metrics = self
            .metrics
            .as_ref()
            .filter(|_| self.scrapers.len() < MAX_SCRAPERS)
            .map(|listener| (listener.as_fd(), reads));
        let connections = self.clients.iter().map(|client| &client.connection);
        let clients = connections.map(|client| (client.stream().as_fd(), client.waits_for()));
        let scrapers = self.scrapers.iter().map(|(one, _)| (one.stream().as_fd(), one.waits_for()));
        listener.into_iter().chain(metrics).chain(clients).chain(scrapers)
    }

    /// When this wants a turn although no descriptor is ready.
    pub fn next_timeout(&self) -> Option<Instant> {
        let scrapers = || self.scrapers.iter().map(|(scraper, _)| scraper);
        let mut clients = self.clients.iter().map(|client| &client.connection);
        if clients.any(Connection::has_line) || scrapers().any(Connection::has_line) {
            return Some(Instant::now());
        }
        self.scrapers.iter().map(|(_, since)| *since + SCRAPE_TIME_LIMIT).min()
    }

    /// Serves clients that said something, and takes new ones in.
    pub fn take_turn(&mut self, service: &mut impl Service) {
        // Before new ones are taken in: who has said something by now is not the one to leave for them.
        self.clients.retain_mut(|client| client.take_turn(service) == Turn::Stays);
        self.accept_clients(service);
        self.accept_scrapers();
        let now = Instant::now();
        self.scrapers.retain_mut(|(scraper, since)| {
            let mut is_request = false;
            let turn = scraper.take_turn(|line, out| {
                // The request line comes first; headers follow until an empty line.
                if !line.is_empty() {
                    return true;
                }
                is_request = true;
                out.extend_from_slice(&http_answer(&service.metrics_text()));
                false
            });
            turn == Turn::Stays && now < *since + SCRAPE_TIME_LIMIT
        });
    }

    /// Takes clients from the backlog, each with a turn of its own at once. If there is no place, the one
    /// that has been silent longest leaves: programs that only stay connected lock nobody out.
    fn accept_clients(&mut self, service: &mut impl Service) {
        for _ in 0..ACCEPTS_PER_TURN {
            let place = if self.clients.len() < self.max_clients { None } else { self.longest_silent() };
            if place.is_none() && self.clients.len() >= self.max_clients {
                break;
            }
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if lacks_descriptors(&error) => {
                    // It would be asked for again and again while it waits.
                    let Some(place) = self.longest_silent() else { break };
                    self.clients.remove(place);
                    self.note_displaced();
                    continue;
                }
                Err(_) => break,
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if let Some(place) = place {
                self.clients.remove(place);
                self.note_displaced();
            }
            let connection = Connection::new(stream, MAX_LINE);
            let mut client = Client { connection, heard: Instant::now() };
            if client.take_turn(service) == Turn::Stays {
                self.clients.push(client);
            }
        }
    }

    /// The client without an open question that has said nothing for the longest time.
    fn longest_silent(&self) -> Option<usize> {
        let idle = self.clients.iter().enumerate().filter(|(_, client)| client.is_idle());
        idle.min_by_key(|(_, client)| client.heard).map(|(place, _)| place)
    }

    /// Tells of the first one: a program that connects again and again must not fill the log.
    fn note_displaced(&mut self) {
        self.displaced += 1;
        let (displaced, places) = (self.displaced, self.max_clients);
        if displaced == 1 {
            tracing::warn!(
                "all {places} places on the control socket are taken: the client that was silent longest is cut off, \
                 now and whenever another comes; if they are all needed, raise `control.max_clients`"
            );
        } else {
            tracing::debug!(displaced, "a silent client left the control socket for another");
        }
    }

    fn accept_scrapers(&mut self) {
        let Some(metrics) = &self.metrics else { return };
        while self.scrapers.len() < MAX_SCRAPERS {
            let Ok((stream, _)) = metrics.accept() else { break };
            if stream.set_nonblocking(true).is_ok() {
                self.scrapers.push((Connection::new(stream, MAX_LINE), Instant::now()));
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket_path);
    }
}

/// True if no further descriptor could be had.
fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Whatever was asked for on this port, the answer is the metrics.
fn http_answer(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn open_socket(path: &Path, mode: u32) -> Result<UnixListener, ControlError> {
    let failed = |what: &str| {
        let what = format!("{what} {}", path.display());
        move |source| ControlError::System { what, source }
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(failed("make the folder of"))?;
    }
    match UnixStream::connect(path) {
        Ok(_) => return Err(ControlError::SocketTaken(path.to_owned())),
        // Nobody listens there, or it is no socket at all.
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {}
        // A datagram socket takes no connection, and may well be in use.
        Err(error) => {
            let why = format!(
                "whether somebody uses it cannot be told ({error}); set `control.socket` to another path"
            );
            return Err(failed("use")(io::Error::new(error.kind(), why)));
        }
    }
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => {
            use std::os::unix::fs::FileTypeExt;
            if !metadata.file_type().is_socket() {
                return Err(failed("replace")(io::Error::other("it is there and no socket")));
            }
            std::fs::remove_file(path).map_err(failed("remove the dead socket"))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed("look at")(error)),
    }
    // Nobody may connect between `bind` and the change of permissions.
    let before = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path).map_err(failed("listen on"));
    nix::sys::stat::umask(before);
    let listener = listener?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .map_err(failed("set the mode of"))?;
    listener.set_nonblocking(true).map_err(failed("set up"))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixDatagram;

    use super::super::config::FileMode;
    use super::*;

    /// Says every line back.
    struct Echo;

    impl Service for Echo {
        fn answer_line(&mut self, line: &[u8], out: &mut Vec<u8>) {
            out.extend_from_slice(line);
            out.push(b'\n');
        }
        fn metrics_text(&mut self) -> String {
            "linkhold_up 1\n".to_owned()
        }
    }

    fn section(folder: &tempfile::TempDir, mode: u32, max_clients: usize) -> ControlSection {
        ControlSection { socket: folder.path().join("new/agent.sock"), mode: FileMode(mode), max_clients }
    }

    fn open(section: &ControlSection) -> Result<Control, ControlError> {
        Control::open(section, &MetricsSection::default())
    }

    /// A client that asks; what it has heard after the next turns.
    fn heard(client: &mut UnixStream, control: &mut Control) -> String {
        client.set_nonblocking(true).unwrap();
        let mut bytes = [0; 64];
        for _ in 0..3 {
            control.take_turn(&mut Echo);
        }
        let length = client.read(&mut bytes).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    fn asking(section: &ControlSection, line: &str) -> UnixStream {
        let mut client = UnixStream::connect(&section.socket).unwrap();
        client.write_all(line.as_bytes()).unwrap();
        client
    }

    #[test]
    fn the_socket_has_the_mode_asked_for_and_goes_with_the_agent() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o660, 0o666] {
            let section = section(&folder, mode, 4);
            let control = open(&section).unwrap();
            let found = std::fs::metadata(&section.socket).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode);
            drop(control);
            assert!(!section.socket.exists());
        }
    }

    #[test]
    fn a_dead_agents_socket_is_replaced_but_no_live_one_and_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let section = section(&folder, 0o600, 4);
        let alive = open(&section).unwrap();
        assert!(matches!(open(&section), Err(ControlError::SocketTaken(_))));
        drop(alive);
        // A killed agent removes nothing.
        drop(UnixListener::bind(&section.socket).unwrap());
        drop(open(&section).unwrap());
        std::fs::write(&section.socket, "precious").unwrap();
        let refusal = open(&section).unwrap_err().to_string();
        assert!(refusal.contains("it is there and no socket"), "{refusal}");
        assert_eq!(std::fs::read_to_string(&section.socket).unwrap(), "precious");
        // One of datagrams takes no connection, and is somebody's (`/dev/log`).
        std::fs::remove_file(&section.socket).unwrap();
        let others = UnixDatagram::bind(&section.socket).unwrap();
        let refusal = open(&section).unwrap_err().to_string();
        assert!(refusal.contains("set `control.socket` to another path"), "{refusal}");
        let sender = UnixDatagram::unbound().unwrap();
        sender.send_to(b"x", &section.socket).unwrap();
        assert_eq!(others.recv(&mut [0; 2]).unwrap(), 1);
    }

    #[test]
    fn who_says_nothing_leaves_for_who_says_something() {
        let folder = tempfile::tempdir().unwrap();
        let section = section(&folder, 0o600, 16);
        let mut control = open(&section).unwrap();
        let mut idle: Vec<UnixStream> =
            (0..16).map(|_| UnixStream::connect(&section.socket).unwrap()).collect();
        for _ in 0..3 {
            control.take_turn(&mut Echo);
        }
        assert_eq!((control.clients.len(), control.displaced), (16, 0));
        assert_eq!(control.descriptors().count(), 17, "the listener is looked at, too");
        // The first one speaks, so the second is the one that has been silent longest.
        idle[0].write_all(b"here\n").unwrap();
        assert_eq!(heard(&mut idle[0], &mut control), "here\n");
        let mut other = asking(&section, "thaw\n");
        assert_eq!(heard(&mut other, &mut control), "thaw\n");
        assert_eq!((control.clients.len(), control.displaced), (16, 1));
        let gone = |client: &mut UnixStream| {
            client.set_nonblocking(true).unwrap();
            matches!(client.read(&mut [0; 1]), Ok(0))
        };
        let left: Vec<usize> = (0..16).filter(|&number| gone(&mut idle[number])).collect();
        assert_eq!(left, [1]);
    }

    #[test]
    fn who_has_said_something_in_the_same_turn_stays() {
        let folder = tempfile::tempdir().unwrap();
        let section = section(&folder, 0o600, 2);
        let mut control = open(&section).unwrap();
        let mut first = UnixStream::connect(&section.socket).unwrap();
        let _second = UnixStream::connect(&section.socket).unwrap();
        control.take_turn(&mut Echo);
        first.write_all(b"first\n").unwrap();
        let mut third = asking(&section, "third\n");
        assert_eq!(heard(&mut first, &mut control), "first\n");
        assert_eq!(heard(&mut third, &mut control), "third\n");
        assert_eq!(control.displaced, 1);
    }

    #[test]
    fn a_client_waits_while_all_others_have_questions_open() {
        /// Answers with more than a socket takes.
        struct Verbose;
        impl Service for Verbose {
            fn answer_line(&mut self, _: &[u8], out: &mut Vec<u8>) {
                out.resize(out.len() + 60_000, b'.');
            }
            fn metrics_text(&mut self) -> String {
                String::new()
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let section = section(&folder, 0o600, 2);
        let mut control = open(&section).unwrap();
        let mut asked: Vec<UnixStream> = (0..2).map(|_| asking(&section, "ask\n")).collect();
        control.take_turn(&mut Verbose);
        while control.clients.iter().any(Client::is_idle) {
            asked.iter_mut().for_each(|client| client.write_all(b"ask\n").unwrap());
            control.take_turn(&mut Verbose);
        }
        assert_eq!(control.clients.len(), 2);
        let mut third = asking(&section, "third\n");
        assert_eq!(heard(&mut third, &mut control), "");
        // A further client is not looked at while there is no room.
        assert_eq!((control.descriptors().count(), control.displaced), (2, 0));
        drop(asked.pop());
        assert_eq!(heard(&mut third, &mut control), "third\n");
    }

    #[test]
    fn a_scraper_gets_the_metrics_and_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let listen = Some("127.0.0.1:0".parse().unwrap());
        let mut control = Control::open(&section(&folder, 0o600, 2), &MetricsSection { listen }).unwrap();
        let address = control.metrics.as_ref().unwrap().local_addr().unwrap();
        let mut scraper = TcpStream::connect(address).unwrap();
        scraper.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        scraper.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        for _ in 0..3 {
            control.take_turn(&mut Echo);
        }
        let mut text = String::new();
        scraper.read_to_string(&mut text).unwrap();
        assert!(
            text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nlinkhold_up 1\n"),
            "{text}"
        );
        assert!(control.scrapers.is_empty());
    }
}
