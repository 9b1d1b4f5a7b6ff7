//! The overhead and figures 3 to 8 against a kernel's TCP: which variants, what they are told, what differs.
//!
//! The paper ran a Linux kernel module of 2009 or so on routers and hosts whose kernel, congestion control
//! and delayed ACKs it does not name (section V). Today's kernel cannot be that one, so claims are judged on
//! today's stack at the paper's LAN, `linux, 3 ms`, and the simulator's column is its profile of that name.
//! Without --quick the other round trips run too, and `linux-2009`, which is today's kernel with the newer
//! parts that it can switch off switched off.

use linkhold_core::time::Duration;
use linkhold_scenario::Case;

use super::figures::{PAPER_STACK, TODAY};
use crate::figure::{FigureSpec, KernelSpec};
use crate::grid::Variant;

/// The stack on which claims are judged.
const STACK: &str = "linux, 3 ms";

/// Least retransmission timeout of a Linux kernel (`TCP_RTO_MIN`, include/net/tcp.h), which the testbed
/// leaves as it is.
const KERNEL_RTO_MIN: Duration = Duration::from_millis(200);

pub(super) const SPEC: KernelSpec = KernelSpec {
    stack: STACK,
    variants,
    refuses,
    left_out: &[(
        "sensitivity",
        "it is no figure of the paper, and most of what it changes is in the simulator's TCP; run one assumption with \
         `linkhold testbed reproductions/dsasync/fig4/scenario.toml --set KEY=VALUE`",
    )],
    told: &[
        "The mechanism is told the radio's rate, sensing ahead, and each burst as it begins and ends: an oracle, as in \
         the simulator. Here what is told takes the way through the agent's control socket.",
        "\"linux\": this kernel's TCP as it is (SACK, timestamps, RACK and tail loss probes, its delayed ACKs, windows \
         that it sizes by itself), with the congestion control that the scenario names (cubic; the paper names none). The \
         paper's windows were 256 KB.",
        "\"linux-2009\" (not with --quick): the same kernel with fixed windows of 256 KiB and without RACK and tail loss \
         probes. It keeps what cannot be switched off: proportional rate reduction, HyStart, an initial window of ten \
         segments, its own delayed ACKs, and its rule for repeated zero windows. In the simulator the name stands for a \
         stack without them.",
        "The simulator's base station can take packets back from the radio's queue when a silence begins (Algorithm 2, \
         line 11); the testbed's cannot.",
        "Processing takes the time that it takes: agent, kernels and radio share this machine's processors.",
        "The overhead and figures 3 to 6 and 8 share runs where their scenarios are the same; figures 3, 4 and 5 are one set \
         of runs.",
    ],
    renamed: &[(", processing not charged", ", processing included")],
};

/// The variants on which claims are judged, on [`STACK`] in place of the paper's; without `quick` all others,
/// too.
fn variants(figure: &FigureSpec, quick: bool) -> Vec<Variant> {
    let mut all = (figure.variants)(true);
    for variant in &mut all {
        variant.stack = variant.stack.replacen(PAPER_STACK, STACK, 1);
        variant.set.extend(TODAY.map(str::to_owned));
    }
    if !quick {
        for other in (figure.variants)(false) {
            let is_there = |one: &Variant| {
                (&one.stack, one.direction, one.x) == (&other.stack, other.direction, other.x)
            };
            if !all.iter().any(is_there) {
                all.push(other);
            }
        }
    }
    all
}

/// What no kernel's TCP does, though the testbed would run it.
fn refuses(case: &Case) -> Option<String> {
    let floor = case.scenario.tcp.rto_min;
    (floor != KERNEL_RTO_MIN).then(|| {
        format!(
            "the kernel's timeouts have a floor of {} ms and its recovery is no textbook's; this stack has a floor of {} ms",
            KERNEL_RTO_MIN.as_millis(),
            floor.as_millis()
        )
    })
}
