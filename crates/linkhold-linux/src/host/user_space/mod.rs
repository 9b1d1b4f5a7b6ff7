//! The eBPF congestion controls in a test's own process, where no kernel and no privilege is needed.
//!
//! `board.c` compiles `bpf/cr_aware.bpf.c`, the very source that the kernel loads, for this machine, and puts
//! one socket, one clock and one radio behind the helpers that it calls. [`sender`] calls it as the kernel's
//! sender does, and [`properties`] says what must hold whatever comes. Without a C compiler the tests say so
//! and are skipped.

mod properties;
mod sender;

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Once, OnceLock};

/// What a socket had when the silence began: `struct kept`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub phase: u32,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub mended: u32,
    pub owed: u32,
    pub ifindex: u32,
    pub una: u32,
    pub sacked: u32,
    pub probed: u32,
    pub again: u32,
    pub nxt: u32,
    pub soon: u32,
    pub row: u32,
    pub row_end: u32,
    pub next: u32,
    pub rested: u32,
    /// First sequence number, and the one behind the last.
    pub ranges: [[u32; 2]; 8],
    pub since: u64,
    pub thawed: u64,
    pub seen_ns: u64,
    pub seen_jiffies: u64,
}

/// Values of [`Kept::phase`].
pub(super) const SENDING: u32 = 0;
pub(super) const FROZEN: u32 = 1;
pub(super) const MENDING: u32 = 2;

/// What happened to sockets: `struct counts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub frozen: u64,
    pub shielded: u64,
    pub restored: u64,
    pub mended: u64,
}

/// One socket with its clock and radio: `struct board` of board.c, member by member.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Board {
    pub now_ns: u64,
    pub jiffies: u64,
    pub quiet_since: u64,
    pub quiet_until: u64,
    pub quiet_there: u32,
    pub ifindex: u32,
    pub memory: u32,
    pub ca_state: u32,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub cwnd_stamp: u32,
    pub snd_nxt: u32,
    pub snd_una: u32,
    pub srtt_us: u32,
    pub cwnd_limited: u32,
    pub prior_cwnd: u32,
    pub cwnd_cnt: u32,
    pub epoch_start: u32,
    pub radio: u32,
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    pub tlp_high_seq: u32,
    pub stored: u32,
    pub zero: u32,
    pub kept: Kept,
    pub counts: Counts,
}

/// The kernel's calls to a congestion control, numbered as in board.c.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum Call {
    Init = 0,
    Ssthresh = 1,
    CongAvoid = 2,
    SetState = 3,
    CwndEvent = 4,
    Acked = 5,
    UndoCwnd = 6,
    InAckEvent = 7,
}

type CallFn = unsafe extern "C" fn(*mut Board, u32, u32, u32, u32) -> u32;

/// The compiled program.
pub(super) struct Program(CallFn);

impl Program {
    /// The program, compiled once a process; `None` after the reason is printed.
    pub(super) fn get() -> Option<&'static Self> {
        static PROGRAM: OnceLock<Result<Program, String>> = OnceLock::new();
        thread_local! {
            /// A property asks for each of its cases; a test has a thread of its own.
            static SAID: Once = const { Once::new() };
        }
        match PROGRAM.get_or_init(Self::build) {
            Ok(program) => Some(program),
            Err(reason) => {
                SAID.with(|said| said.call_once(|| linkhold_testing::skipped(reason)));
                None
            }
        }
    }

    /// Calls a congestion control: `cubic` or Reno, and shielded by the program or plain.
    pub(super) fn call(&self, board: &mut Board, cubic: bool, shield: bool, call: Call, with: u32) -> u32 {
        // SAFETY: board.c reads and writes the board it is given, which is laid out alike (`build` compares
        // sizes), and keeps no pointer to it.
        unsafe { (self.0)(board, u32::from(cubic), u32::from(shield), call as u32, with) }
    }

    fn build() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let library = folder.path().join("cr_aware.so");
        compile(&library)?;
        // The library stays open, so that its file may go.
        let path =
            CString::new(library.to_str().ok_or("a path in UTF-8")?).map_err(|error| error.to_string())?;
        // SAFETY: the path is a C string; the library has no constructors.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err("the compiled program cannot be loaded into this process".to_owned());
        }
        let find = |name: &std::ffi::CStr| {
            // SAFETY: the handle is open, and the name a C string.
            let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
            if symbol.is_null() {
                Err(format!("{name:?} is not in the compiled program"))
            } else {
                Ok(symbol)
            }
        };
        // SAFETY: board.c defines both functions with these arguments.
        let (size, call) = unsafe {
            (
                std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> u32>(find(
                    c"linkhold_size",
                )?),
                std::mem::transmute::<*mut libc::c_void, CallFn>(find(c"linkhold_call")?),
            )
        };
        // SAFETY: it takes nothing and answers a number.
        let theirs = unsafe { size() } as usize;
        assert_eq!(theirs, size_of::<Board>(), "struct board of board.c is not Board");
        Ok(Self(call))
    }
}

/// Compiles the program with the first C compiler that there is. One that refuses is a failure, not a reason
/// to skip: the source is ours.
fn compile(library: &Path) -> Result<(), String> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/host/user_space");
    let named = std::env::var("CLANG").ok();
    for compiler in named.iter().map(String::as_str).chain(["clang", "cc"]) {
        let mut command = Command::new(compiler);
        command.args(["-std=gnu17", "-O1", "-g", "-shared", "-fPIC", "-fvisibility=hidden"]);
        command.args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-I"]).arg(&here);
        let Ok(output) = command.arg(here.join("board.c")).arg("-o").arg(library).output() else { continue };
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        return Ok(());
    }
    Err("there is neither clang nor cc to compile the program with".to_owned())
}
