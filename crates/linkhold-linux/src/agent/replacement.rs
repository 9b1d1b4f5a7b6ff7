//! Rules that follow a change of the bridges, put in beside the packets' thread: a firewall that is being
//! reloaded may be locked for many seconds, in which no packet is to wait.
//!
//! Wanted → under way → in, or refused; → wanted again after a while if the firewall was locked.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use linkhold_core::time::{Duration, Instant};

use super::processor::roam;
use crate::datapath::rules::{Backend, NotReplaced, RuleSet, RulesError};

/// From a try that met a locked firewall to the next.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Puts rules in where others are by a backend, and answers by which they are in then.
type PutIn = dyn Fn(&RuleSet, Backend) -> Result<Backend, NotReplaced> + Send + Sync;

/// What became of a try.
type Outcome = (RuleSet, Result<Backend, NotReplaced>);

/// The rules that are to take the place of others.
pub struct Replacement {
    put_in: Arc<PutIn>,
    /// Where the programs may run: the agent's own thread stays on one processor, and is not to share it.
    processors: Vec<u32>,
    /// What is to be put in, and not before when.
    wanted: Option<(RuleSet, Instant)>,
    under_way: Option<(RuleSet, Receiver<Result<Backend, NotReplaced>>)>,
}

impl Replacement {
    /// Nothing is to be replaced yet.
    pub fn new(
        put_in: impl Fn(&RuleSet, Backend) -> Result<Backend, NotReplaced> + Send + Sync + 'static,
        processors: Vec<u32>,
    ) -> Self {
        Self { put_in: Arc::new(put_in), processors, wanted: None, under_way: None }
    }

    /// These rules are to be in. Of what is wanted while a try is under way the last counts.
    pub fn want(&mut self, set: RuleSet, now: Instant) {
        self.wanted = Some((set, now));
    }

    /// What became of the last try, once it is over; begins the next one if it is time, in the place of rules
    /// that are in by `backend`. Never waits.
    pub fn poll(&mut self, backend: Backend, now: Instant) -> Option<Outcome> {
        let outcome = self.outcome(now);
        let backend = match &outcome {
            Some((_, Ok(backend))) => *backend,
            _ => backend,
        };
        if self.under_way.is_none()
            && let Some((set, _)) = self.wanted.take_if(|(_, from)| *from <= now)
        {
            self.begin(set, backend);
        }
        outcome
    }

    fn outcome(&mut self, now: Instant) -> Option<Outcome> {
        let result = match self.under_way.as_ref()?.1.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => {
                Err(RulesError::Refused("the thread that was to do it ended".to_owned()).into())
            }
            Ok(result) => result,
        };
        let (set, _) = self.under_way.take()?;
        if matches!(result, Err(NotReplaced::Locked(_))) && self.wanted.is_none() {
            self.wanted = Some((set.clone(), now + TRY_AGAIN_AFTER));
        }
        Some((set, result))
    }

    fn begin(&mut self, set: RuleSet, backend: Backend) {
        let (tell, answer) = sync_channel(1);
        let (put_in, processors, rules) = (Arc::clone(&self.put_in), self.processors.clone(), set.clone());
        let work = move || {
            roam(&processors);
            // Nobody listens any more where the agent has ended meanwhile.
            let _ = tell.send(put_in(&rules, backend));
        };
        // Without a thread, what was to tell is gone, which is told as such.
        if let Err(error) = std::thread::Builder::new().name("replacement".to_owned()).spawn(work) {
            tracing::debug!(%error, "no thread to replace the rules");
        }
        self.under_way = Some((set, answer));
    }

    /// Waits for the try that is under way, but no longer than this, and begins none any more.
    pub fn finish(&mut self, limit: std::time::Duration) {
        self.wanted = None;
        if let Some((_, answer)) = self.under_way.take() {
            let _ = answer.recv_timeout(limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::datapath::rules::Traffic;

    fn set(radio: &str) -> RuleSet {
        RuleSet {
            instance: "a".to_owned(),
            wired: Vec::new(),
            radio: vec![radio.to_owned()],
            queue: 0,
            traffic: Traffic::Forwarded,
            datagrams: false,
            bridged: BTreeSet::new(),
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// A firewall that answers when the test says what, and tells whose rules were put in.
    fn firewall() -> (Replacement, Sender<Result<Backend, NotReplaced>>, Receiver<String>) {
        let (say, said) = channel();
        let (tell, told) = channel();
        let both = Mutex::new((said, tell));
        let put_in = move |set: &RuleSet, backend: Backend| {
            let (said, tell) = &*both.lock().unwrap();
            tell.send(format!("{} for {}", set.radio[0], backend.name())).unwrap();
            said.recv().unwrap()
        };
        (Replacement::new(put_in, Vec::new()), say, told)
    }

    fn until_over(replacement: &mut Replacement, now: Instant) -> Outcome {
        for _ in 0..2_000 {
            if let Some(outcome) = replacement.poll(Backend::Nftables, now) {
                return outcome;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("a try does not end")
    }

    #[test]
    fn a_firewall_that_is_locked_holds_nobody_up_and_is_tried_again() {
        let (mut replacement, say, told) = firewall();
        replacement.want(set("one"), at(1));
        // Whoever asks goes on, and what was wanted meanwhile comes next, the last of it only.
        for second in 1..100 {
            assert!(replacement.poll(Backend::Nftables, at(second)).is_none());
        }
        replacement.want(set("two"), at(100));
        replacement.want(set("three"), at(100));
        assert!(replacement.poll(Backend::Nftables, at(100)).is_none());
        let both = Backend::Both { ipv6: true };
        say.send(Ok(both)).unwrap();
        let (one, result) = until_over(&mut replacement, at(100));
        assert!(one == set("one") && result.is_ok_and(|backend| backend == both));
        say.send(Err(NotReplaced::Locked("iptables-restore"))).unwrap();
        let (three, result) = until_over(&mut replacement, at(100));
        assert!(three == set("three") && matches!(result, Err(NotReplaced::Locked(_))));
        assert!(replacement.poll(Backend::Nftables, at(109)).is_none() && replacement.under_way.is_none());
        assert!(replacement.poll(Backend::Nftables, at(110)).is_none() && replacement.under_way.is_some());
        say.send(Err(RulesError::Refused("no".to_owned()).into())).unwrap();
        assert!(matches!(until_over(&mut replacement, at(110)).1, Err(NotReplaced::Refused(_))));
        assert!(
            replacement.poll(Backend::Nftables, at(1_000)).is_none() && replacement.under_way.is_none(),
            "that is for good"
        );
        assert_eq!(
            told.try_iter().collect::<Vec<_>>(),
            [
                "one for nftables",
                // What the first try left.
                "three for nftables, bridges by iptables",
                // Whoever asks knows better since.
                "three for nftables"
            ]
        );
    }

    #[test]
    fn an_agent_that_ends_waits_for_what_is_under_way_but_not_for_ever() {
        let (mut replacement, say, told) = firewall();
        replacement.want(set("one"), at(1));
        assert!(replacement.poll(Backend::Nftables, at(1)).is_none());
        replacement.want(set("two"), at(1));
        replacement.finish(std::time::Duration::from_millis(20));
        say.send(Ok(Backend::Nftables)).unwrap();
        assert!(replacement.poll(Backend::Nftables, at(100)).is_none() && replacement.under_way.is_none());
        assert_eq!(told.recv().unwrap(), "one for nftables");
    }
}
