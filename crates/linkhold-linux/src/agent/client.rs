//! Speaking to a running agent: what `linkhold signal` and `linkhold status` do.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::protocol::{Event, Message, Query, Reply};
use super::status::Status;

/// An agent that takes longer than this is stuck.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Longest reply, bytes.
const MAX_REPLY: u64 = 1 << 20;

/// Why a command to the agent failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no agent listens on {path} ({source}); start it with `linkhold agent --config FILE`, or name its socket"
    )]
    NoAgent {
        /// The socket.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The socket is not this user's.
    #[error(
        "you may not open {path}: run this with sudo, or set mode = \"0660\" under [control] in the agent's \
         configuration and join the socket's group"
    )]
    NoRight {
        /// The socket.
        path: PathBuf,
    },
    /// The connection broke, or what came back is no reply.
    #[error("the agent on {path} does not answer: {message}")]
    NoAnswer {
        /// The socket.
        path: PathBuf,
        /// What happened.
        message: String,
    },
    /// The agent refuses.
    #[error("the agent refuses: {0}")]
    Refused(String),
}

/// Tells the agent what happened on the radio, in the name of `source`.
///
/// # Errors
/// [`ClientError`] if the agent cannot be reached or refuses.
pub fn signal(socket: &Path, source: &str, event: Event) -> Result<(), ClientError> {
    let message = Message {
        source: Some(source.to_owned()),
        radio: None,
        detected_ago_s: None,
        effective_in_s: None,
        event: Some(event),
        query: None,
    };
    send(socket, &message).map(|_| ())
}

/// Asks for the agent's state.
///
/// # Errors
/// [`ClientError`] if there is no answer.
pub fn status(socket: &Path) -> Result<Status, ClientError> {
    let message = Message {
        source: None,
        radio: None,
        detected_ago_s: None,
        effective_in_s: None,
        event: None,
        query: Some(Query::Status),
    };
    match send(socket, &message)?.status {
        Some(status) => Ok(*status),
        None => Err(no_answer(socket, "its reply holds no status")),
    }
}

/// Sends one message and waits for the reply.
///
/// # Errors
/// [`ClientError`] if the agent cannot be reached or refuses.
pub fn send(socket: &Path, message: &Message) -> Result<Reply, ClientError> {
    let mut stream = UnixStream::connect(socket).map_err(|source| no_connection(socket, source))?;
    let reply = exchange(&mut stream, message).map_err(|error| match error.kind() {
        // What a socket with a time limit says at its end.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            no_answer(socket, format!("no answer within {} s", TIME_LIMIT.as_secs()))
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            no_answer(socket, "it closed the connection without an answer")
        }
        _ => no_answer(socket, error),
    })?;
    if reply.ok {
        Ok(reply)
    } else {
        Err(ClientError::Refused(reply.error.unwrap_or_else(|| "without a reason".to_owned())))
    }
}

/// Why there is no connection.
#[must_use]
pub fn no_connection(socket: &Path, source: io::Error) -> ClientError {
    let path = socket.to_owned();
    match source.kind() {
        io::ErrorKind::PermissionDenied => ClientError::NoRight { path },
        _ => ClientError::NoAgent { path, source },
    }
}

fn no_answer(socket: &Path, message: impl ToString) -> ClientError {
    ClientError::NoAnswer { path: socket.to_owned(), message: message.to_string() }
}

fn exchange(stream: &mut UnixStream, message: &Message) -> io::Result<Reply> {
    stream.set_read_timeout(Some(TIME_LIMIT))?;
    stream.set_write_timeout(Some(TIME_LIMIT))?;
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    if BufReader::new(stream.take(MAX_REPLY)).read_line(&mut answer)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&answer)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn ask(socket: &Path) -> String {
        status(socket).unwrap_err().to_string()
    }

    #[test]
    fn a_socket_of_another_user_is_no_missing_agent() {
        let refused = no_connection(Path::new("a.sock"), io::ErrorKind::PermissionDenied.into()).to_string();
        assert!(refused.starts_with("you may not open a.sock: run this with sudo"), "{refused}");
        let folder = tempfile::tempdir().unwrap();
        let missing = ask(&folder.path().join("a.sock"));
        assert!(missing.starts_with("no agent listens on "), "{missing}");
    }

    #[test]
    fn an_agent_that_says_nothing_is_told_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("a.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let told = ask(&socket);
        assert!(told.ends_with("a.sock does not answer: no answer within 5 s"), "{told}");
        let closing = std::thread::spawn(move || {
            // The first one has waited in the backlog and is gone.
            drop(linkhold_testing::accept(&listener));
            drop(linkhold_testing::accept(&listener));
        });
        let told = ask(&socket);
        assert!(told.ends_with("does not answer: it closed the connection without an answer"), "{told}");
        closing.join().unwrap();
    }
}
