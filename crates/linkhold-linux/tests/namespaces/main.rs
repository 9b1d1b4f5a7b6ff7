//! The agent between namespaces: correspondent host — base station — station, on this machine's kernel.
//!
//! Needs root, `ip`, and nftables or iptables; without them every test is skipped and says why. The test
//! program is also the agent's process, so that it can be ended and killed like the real one.

mod agent_process;
mod attempts;
mod behaviour;
mod bridge;
mod capture;
mod datagrams;
mod exchanges;
mod failure;
mod host;
mod hostile;
mod kills;
mod locked;
mod nat;
mod packets;
mod radio;
mod radios;
mod refusals;
mod rules;
mod service;
mod stacked;
mod standstill;
mod transfer;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// What a test answers.
type Outcome = Result<(), Unfinished>;

/// Why a test did not come to its end.
enum Unfinished {
    Failed(Failed),
    /// This machine lacks what it needs: the test is ignored, and counted as such.
    Skipped(String),
}

/// Anything that `?` meets is a failure.
impl<Reason: std::fmt::Display> From<Reason> for Unfinished {
    fn from(reason: Reason) -> Self {
        Self::Failed(Failed::from(reason))
    }
}

/// Ends a test that this machine cannot run, with the reason: `return skipped("…")`.
fn skipped<T>(reason: impl Into<String>) -> Result<T, Unfinished> {
    Err(Unfinished::Skipped(reason.into()))
}

/// The test for libtest, which knows one that was skipped from one that passed.
fn trial(NamedTest { name, test, is_timed }: NamedTest) -> Trial {
    let trial = Trial::ignorable_test(name, move || match test() {
        Ok(()) => Ok(Completion::Completed),
        Err(Unfinished::Skipped(reason)) => Ok(Completion::ignored_with(reason)),
        Err(Unfinished::Failed(failed)) => Err(failed),
    });
    trial.with_kind(if is_timed { "timed" } else { "" })
}
/// A test and its name.
struct NamedTest {
    name: &'static str,
    test: fn() -> Outcome,
    /// It compares the order or the time of packets: `scripts/repeat_tests.sh order` repeats it.
    is_timed: bool,
}

const fn plain(name: &'static str, test: fn() -> Outcome) -> NamedTest {
    NamedTest { name, test, is_timed: false }
}

const fn timed(name: &'static str, test: fn() -> Outcome) -> NamedTest {
    NamedTest { name, test, is_timed: true }
}

fn main() -> ExitCode {
    if let Some(config) = std::env::var_os(agent_process::ROLE) {
        return agent_process::be_the_agent(std::path::Path::new(&config));
    }
    let mut arguments = Arguments::from_args();
    // They share two cores with the traffic they measure.
    arguments.test_threads = Some(1);
    let tests: [NamedTest; 74] = [
        plain("a_transfer_through_the_agent_arrives_whole", behaviour::transfer_arrives_whole),
        timed("requests_and_answers_arrive_whole_around_silences", exchanges::requests_and_answers),
        timed("data_both_ways_at_once_arrives_whole_around_silences", exchanges::both_ways_at_once),
        plain("hosts_have_tables_of_connections_of_their_own", behaviour::hosts_have_tables_of_their_own),
        plain("hosts_receive_on_one_processor", behaviour::hosts_receive_on_one_processor),
        plain("aggregates_are_split_for_a_slow_radio", behaviour::aggregates_are_split),
        plain("a_transfer_from_behind_nat_arrives_whole", behaviour::transfer_through_nat),
        plain("copies_to_a_station_behind_nat_are_the_flows_own", nat::copies_to_a_station),
        plain("acks_to_a_home_behind_the_radios_nat_are_the_flows_own", nat::acks_to_a_home),
        timed("a_silence_holds_and_releases_in_order", behaviour::silence_holds_and_releases_in_order),
        plain("closed_windows_have_right_checksums", behaviour::closed_windows_have_right_checksums),
        timed("a_scheduled_silence_holds", behaviour::scheduled_silence),
        timed("an_announced_silence_holds_when_it_begins", behaviour::announced_silence),
        timed("sigterm_lets_go_and_removes_the_rules", failure::sigterm_lets_go),
        timed(
            "traffic_flows_at_the_radios_return_although_the_agent_was_killed",
            failure::sigkill_in_a_silence,
        ),
        timed("a_killed_agents_packets_are_let_go_in_order", failure::guardian_lets_go),
        timed("a_killed_guardian_is_replaced", failure::guardian_is_replaced),
        plain("a_guardian_that_dies_at_once_is_missed_and_tried_again", failure::guardian_that_dies_at_once),
        plain("a_log_that_nobody_takes_stops_nothing", failure::a_log_that_nobody_takes),
        timed("a_silence_that_nobody_ends_is_over_at_the_maximum", failure::unended_silence),
        plain("a_full_queue_fails_open", failure::full_queue_fails_open),
        timed("kills_at_random_times_stop_no_transfer", kills::a_few),
        plain("nftables_reads_the_rules", rules::nftables_reads_the_rules),
        plain("iptables_joins_nftables_for_a_bridge", rules::iptables_joins_nftables_for_a_bridge),
        plain("a_backend_is_chosen_by_trying", rules::a_backend_is_chosen_by_trying),
        plain("flushed_rules_block_nothing", rules::flushed_rules_block_nothing),
        plain("rules_that_were_there_first_go_on", rules::rules_that_were_there_first_go_on),
        timed("no_packet_waits_for_a_firewall_that_is_locked", locked::no_packet_waits_for_it),
        timed("no_end_waits_for_a_firewall_that_is_locked", locked::no_end_waits_for_it),
        plain("an_end_runs_few_firewall_programs", locked::an_end_runs_few_programs),
        plain("an_agent_takes_no_name_or_queue_of_another", failure::rivals),
        plain("the_packaged_unit_is_valid", service::packaged_unit),
        timed("a_service_manager_is_told", service::service_manager_is_told),
        plain("two_capabilities_are_enough", service::two_capabilities_are_enough),
        plain("metrics_are_served", service::metrics_are_served),
        plain("doctor_finds_what_the_other_tests_use", service::doctor_finds_what_the_other_tests_use),
        timed("two_radios_do_not_disturb_each_other", radios::two_radios_do_not_disturb_each_other),
        timed("a_bridge_of_one_radio_lets_nothing_of_another_pass_by", radios::a_bridge_of_one_radio),
        plain("a_signal_names_its_radio", radios::a_signal_names_its_radio),
        plain("a_signal_that_nobody_listens_to_says_so", radios::a_signal_that_nobody_listens_to),
        plain("a_signal_that_would_do_nothing_is_refused", radios::a_signal_that_would_do_nothing_is_refused),
        timed("a_bridged_radio_is_managed", bridge::a_bridged_radio_is_managed),
        plain(
            "a_broadcast_crosses_a_bridge_with_conntrack",
            bridge::a_broadcast_crosses_a_bridge_with_conntrack,
        ),
        plain("a_radio_hidden_in_a_bridge_is_refused", bridge::a_hidden_radio_is_refused),
        timed("a_radio_put_into_a_bridge_later_is_managed", bridge::a_radio_put_into_a_bridge_later),
        plain("an_interface_that_is_not_there_is_told", bridge::an_interface_that_is_not_there),
        plain("routing_rules_are_told", bridge::routing_rules_are_told),
        plain("a_flow_table_is_told", bridge::a_flow_table_is_told),
        plain("a_vlan_above_the_configured_interface_is_named", stacked::a_vlan_is_named),
        plain("a_macvlan_above_the_configured_interface_is_named", stacked::a_macvlan_is_named),
        plain("aggregates_that_no_header_can_name_are_told", bridge::aggregates_that_no_header_can_name),
        plain("the_agent_stays_on_one_processor", service::the_agent_stays_on_one_processor),
        plain("a_recording_replays", service::a_recording_replays),
        plain("a_recording_of_things_due_at_once_replays", service::a_recording_of_things_due_at_once),
        plain("a_taken_metrics_port_does_not_stop_the_agent", service::a_taken_metrics_port),
        plain("hostile_clients_do_not_stop_the_agent", failure::hostile_clients),
        timed("a_hog_leaves_a_flow_its_share", hostile::a_hog_leaves_a_flow_its_share),
        timed(
            "a_hog_leaves_a_flow_its_share_where_nobody_tells_the_rate",
            hostile::a_hog_leaves_a_flow_its_share_where_nobody_tells_the_rate,
        ),
        plain("a_signed_flow_is_not_touched", hostile::a_signed_flow_is_not_touched),
        timed("a_host_stops_its_senders_by_their_windows", host::windows_stop_senders),
        timed("a_host_keeps_every_silence_that_is_announced_ahead", host::silences_announced_ahead),
        plain(
            "a_hosts_congestion_controls_come_and_go_with_sockets_open",
            host::congestion_controls_come_and_go,
        ),
        plain("a_host_that_joins_beside_a_doctor_freezes_its_senders", host::joined_beside_a_doctor),
        plain(
            "a_host_takes_over_the_default_congestion_control",
            host::the_default_congestion_control_is_taken_over,
        ),
        timed("a_silence_leaves_a_frozen_senders_window_alone", host::silence_leaves_windows_alone),
        timed("a_thaw_wakes_senders_whose_timers_have_backed_off", host::a_thaw_wakes_senders),
        timed("a_thaw_wakes_senders_that_had_no_timeout", host::a_thaw_wakes_senders_that_had_no_timeout),
        timed("freezes_doubled_lost_and_out_of_order_stop_no_sender", host::freezes_in_any_order),
        timed("freezes_at_random_stop_no_sender", host::freezes_at_random),
        timed("a_killed_host_leaves_no_sender_frozen", host::a_killed_host),
        plain("refusals_of_the_kernel_are_as_the_page_says", refusals::are_as_the_page_says),
        plain("refusals_are_compared_by_their_words", refusals::are_compared_by_their_words),
        timed("a_file_of_samples_shuts_and_opens_a_hosts_gate", host::a_file_of_samples),
        timed("datagrams_wait_for_the_end_of_a_silence", datagrams::a_burst_in_a_silence),
    ];
    go_before_other_work();
    let missing = missing_requirement();
    if let Some(reason) = &missing {
        eprintln!("namespace tests are skipped: {reason}");
    }
    for stale in linkhold_linux::netns::reap_stale() {
        eprintln!("removed the stale namespace {stale}");
    }
    let mut trials: Vec<Trial> =
        tests.into_iter().map(|test| trial(test).with_ignored_flag(missing.is_some())).collect();
    // Longer ones: `-- --ignored`.
    let long: [NamedTest; 2] = [
        plain("fifty_kills_at_random_times_stop_no_transfer", kills::fifty),
        plain("a_quic_download_crosses_silences", datagrams::quic_downloads),
    ];
    trials.extend(long.into_iter().map(|test| trial(test).with_ignored_flag(true)));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Gives this process, and the programs that it starts, a real-time priority: hosts and router of their own
/// would not wait for this machine's other work, such as a build beside the tests. Without the right to it
/// the tests run all the same, and their bounds on time want a quieter machine.
fn go_before_other_work() {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the call reads the parameter, which lives on this stack frame; 0 is the calling process.
    let refused = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const lowest) != 0 };
    if refused {
        eprintln!("no right to a real-time priority: {}", std::io::Error::last_os_error());
    }
}

fn missing_requirement() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("they need root".to_owned());
    }
    let is_missing = |program: &&str| !linkhold_linux::command::is_installed(program);
    if let Some(program) = ["ip", "setpriv"].into_iter().find(is_missing) {
        return Some(format!("`{program}` is not installed"));
    }
    if ["nft", "iptables"].iter().all(is_missing) {
        return Some("neither `nft` nor `iptables` is installed".to_owned());
    }
    None
}
