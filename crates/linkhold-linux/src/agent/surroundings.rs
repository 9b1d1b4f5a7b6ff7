//! What stands around the agent: interfaces that come and go, bridges, interfaces that stand on the
//! configured ones, offloaded flows, and the agent's own rules. The agent looks when it starts, and again and
//! again, because hostapd puts a radio into a bridge long after the router's start, and a firewall that is
//! reloaded may bring a flow table, or take the agent's rules away. The kernel answers for interfaces under
//! its RTNL lock, which another program may keep for long (a driver that loads its firmware), and `nft` and
//! `iptables`, which look at flow tables and rules, take milliseconds. So threads of their own look, and
//! packets do not wait.
//!
//! Rules that are gone are told and not put in again: whoever flushed them may have wanted the agent out of
//! the packets' way, and a program that undoes what an operator does to the firewall cannot be trusted there.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use linkhold_core::time::{Duration, Instant};

use super::config::{AgentConfig, RadioEvents};
use super::error::AgentError;
use super::nl80211;
use super::processor::roam;
use crate::datapath::crossing::{BridgeNetfilter, Crossings, absence, look};
use crate::datapath::offload::{Offload, offloads};
use crate::datapath::policy;
use crate::datapath::rules::{Backend, RuleSet, lost};
use crate::datapath::stacked::{Stacked, Weight, stacked, with_lower};
use crate::interfaces::Kernel;
use crate::interfaces::survey::members;

/// From one look at the interfaces to the next: a few questions to the kernel, each of some microseconds.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// From the beginning of that look, which decides what the rules are, to the first question what it found.
const LOOK_TAKES: Duration = Duration::from_millis(5);
/// How often that is asked again: the look waits where another program keeps the kernel's lock.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// From one look at flow tables to the next.
const LOOK_AT_OFFLOADS_EVERY: Duration = Duration::from_secs(60);
/// From one look at interfaces that stand on others to the next: lists of all interfaces and addresses.
const LOOK_AT_STACKS_EVERY: Duration = Duration::from_secs(20);
/// From one look at the agent's own rules to the next: without them it does nothing, which should not go
/// unseen for long. The look runs one program, or two.
const LOOK_AT_RULES_EVERY: Duration = Duration::from_secs(6);

/// Looks for something again and again, beside the thread that asks.
struct Watch<T> {
    /// Name of the thread that looks.
    name: &'static str,
    find: Arc<dyn Fn() -> T + Send + Sync>,
    every: Duration,
    /// Where the look may run: the agent's own thread stays on one processor, and is not to share it.
    processors: Vec<u32>,
    next: Instant,
    under_way: Option<Receiver<T>>,
}

impl<T: Send + 'static> Watch<T> {
    /// A watch whose first look is `every` from `now`.
    fn new(
        name: &'static str,
        find: impl Fn() -> T + Send + Sync + 'static,
        every: Duration,
        processors: Vec<u32>,
        now: Instant,
    ) -> Self {
        Self { name, find: Arc::new(find), every, processors, next: now + every, under_way: None }
    }

    /// What the last look found, once it is over; begins the next look if it is time. Never waits.
    fn poll(&mut self, now: Instant) -> Option<T> {
        if let Some(answer) = &self.under_way {
            return match answer.try_recv() {
                Err(TryRecvError::Empty) => None,
                found => {
                    self.under_way = None;
                    found.ok()
                }
            };
        }
        if now >= self.next {
            self.next = now + self.every;
            let (find, processors) = (Arc::clone(&self.find), self.processors.clone());
            let (tell, answer) = sync_channel(1);
            let look = move || {
                roam(&processors);
                // Nobody listens any more where the agent has ended meanwhile.
                let _ = tell.send(find());
            };
            match std::thread::Builder::new().name(self.name.to_owned()).spawn(look) {
                Ok(_) => self.under_way = Some(answer),
                Err(error) => tracing::debug!(%error, look = self.name, "no thread for a look around"),
            }
        }
        None
    }
}

/// What a configuration has looked for.
#[derive(Clone, Debug)]
pub struct Look {
    wired: Vec<String>,
    radio: Vec<String>,
    /// Aggregates come to the agent as they are.
    whole: bool,
    /// Silences of Wi-Fi radios are heard from nl80211.
    hears_radios: bool,
    mark: u32,
}

impl Look {
    /// For an agent of this configuration.
    #[must_use]
    pub fn of(config: &AgentConfig) -> Self {
        Self {
            wired: config.wired.clone(),
            radio: config.radio.clone(),
            whole: config.leaves_aggregates_whole(),
            hears_radios: config.radio_events == RadioEvents::Nl80211,
            mark: config.datapath.mark,
        }
    }

    /// What stands between the configured interfaces. The socket is a new one each time: in an old one an
    /// answer that came too late would be taken for the next question's.
    ///
    /// # Errors
    /// If the interfaces cannot be looked up.
    pub fn crossings(&self) -> io::Result<Crossings> {
        let mut found =
            look(&self.wired, &self.radio, self.whole, &Kernel::open()?, BridgeNetfilter::read())?;
        if !self.hears_radios {
            found.wireless.clear();
        }
        if !found.wireless.is_empty() {
            match members().and_then(|all| Ok((all, nl80211::interfaces()?))) {
                Ok((all, wireless)) => found.note_wireless(&all, &wireless),
                Err(error) => {
                    tracing::debug!(%error, "Wi-Fi ports of bridges cannot be looked up");
                    found.wireless.clear();
                }
            }
        }
        found.doubts.extend(policy::doubt(self.mark));
        Ok(found)
    }

    /// What stands on the configured interfaces.
    ///
    /// # Errors
    /// As [`crossings`](Self::crossings).
    pub fn stacked(&self) -> io::Result<Vec<Stacked>> {
        stacked(&self.wired, &self.radio)
    }

    /// What takes flows of the configured interfaces, or of those below them, past the firewall.
    ///
    /// # Errors
    /// Why that cannot be seen, in words.
    pub fn offloads(&self) -> Result<Vec<Offload>, String> {
        let own: Vec<String> = self.wired.iter().chain(&self.radio).cloned().collect();
        let below = members().map(|all| with_lower(&own, &all));
        let own = below.unwrap_or_else(|error| {
            tracing::debug!(%error, "interfaces below the configured ones cannot be looked up");
            own
        });
        Ok(offloads()?.into_iter().filter(|offload| offload.concerns(&own)).collect())
    }

    /// The same in words, each with what to change.
    fn offload_troubles(&self) -> Vec<String> {
        match self.offloads() {
            Ok(found) => {
                found.iter().map(|offload| format!("{}: {}", offload.reason(), Offload::REMEDY)).collect()
            }
            Err(unseen) => vec![unseen],
        }
    }
}

/// What stands around the agent, as last found.
pub struct Surroundings {
    crossings: Crossings,
    /// A configured interface has appeared or is another one, or so has a Wi-Fi port of a bridge, and nobody
    /// has asked yet.
    has_arrived: bool,
    crossings_watch: Watch<Option<Crossings>>,
    /// In words, each with what to change.
    offloads: Vec<String>,
    offload_watch: Watch<Vec<String>>,
    /// Interfaces that stand on the configured ones and take packets past the agent. The agent starts all the
    /// same, because while a router starts, an address may come later than the agent.
    stacked: Vec<Stacked>,
    stack_watch: Watch<Option<Vec<Stacked>>>,
    /// Looks at the rules that are in.
    rules_watch: Option<Watch<Vec<&'static str>>>,
    /// What is amiss with the rules: they are gone, or could not follow a change.
    rules_trouble: Option<String>,
    next_look: Instant,
}

impl Surroundings {
    /// Looks for the first time, and logs what is amiss. `processors` are those that later looks may
    /// use.
    ///
    /// # Errors
    /// [`AgentError::Hidden`] if packets of a wired and a radio interface would never come to the agent. That
    /// an interface is not there yet is no error.
    pub fn explore(config: &AgentConfig, processors: Vec<u32>, now: Instant) -> Result<Self, AgentError> {
        let look = Look::of(config);
        let find_stacked = {
            let look = look.clone();
            move || {
                let found = look.stacked();
                found
                    .inspect_err(|error| tracing::debug!(%error, "stacked interfaces cannot be looked up"))
                    .ok()
            }
        };
        let find_offloads = {
            let look = look.clone();
            move || look.offload_troubles()
        };
        let stacked = find_stacked().unwrap_or_default();
        let crossings = look.crossings().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot look at the interfaces: a bridge or a missing interface goes unseen");
            Crossings::default()
        });
        let find_crossings = move || {
            let found = look.crossings();
            found.inspect_err(|error| tracing::debug!(%error, "the interfaces cannot be looked at")).ok()
        };
        let watch_crossings = Watch::new("interfaces", find_crossings, LOOK_EVERY, processors.clone(), now);
        let mut this = Self {
            crossings,
            has_arrived: false,
            crossings_watch: watch_crossings,
            offloads: Vec::new(),
            offload_watch: Watch::new(
                "offloads",
                find_offloads.clone(),
                LOOK_AT_OFFLOADS_EVERY,
                processors.clone(),
                now,
            ),
            stacked: Vec::new(),
            stack_watch: Watch::new("stacks", find_stacked, LOOK_AT_STACKS_EVERY, processors, now),
            rules_watch: None,
            rules_trouble: None,
            next_look: now + LOOK_EVERY,
        };
        if !this.crossings.hidden.is_empty() {
            let reasons: Vec<String> = this.crossings.hidden.iter().map(ToString::to_string).collect();
            return Err(AgentError::Hidden(reasons.join("; ")));
        }
        this.offloads = find_offloads();
        for trouble in this.troubles() {
            tracing::warn!("{trouble}");
        }
        this.note_stacked(stacked);
        Ok(this)
    }

    /// Takes over what a look at flow tables found, and answers what of it is new, and whether something is
    /// gone.
    fn note_offloads(&mut self, found: Vec<String>) -> (Vec<String>, bool) {
        let before = std::mem::replace(&mut self.offloads, found);
        let new = self.offloads.iter().filter(|one| !before.contains(one)).cloned().collect();
        (new, before.iter().any(|one| !self.offloads.contains(one)))
    }

    /// Takes over what a look at stacked interfaces found, and logs what of it is new, and that something is
    /// gone.
    fn note_stacked(&mut self, found: Vec<Stacked>) {
        let before = std::mem::replace(&mut self.stacked, found);
        for one in self.stacked.iter().filter(|one| !before.contains(one)) {
            match one.weight {
                Weight::Certain | Weight::Possible => tracing::warn!("{}", one.hidden),
                Weight::Hint => tracing::info!("{}", one.hidden),
            }
        }
        if before.iter().any(|one| !self.stacked.contains(one)) {
            tracing::info!("what stands on the configured interfaces has changed");
        }
    }

    /// When to look again.
    #[must_use]
    pub fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Looks again if it is time, and logs what changed; true if the rules must change with it.
    pub fn look_again(&mut self, now: Instant) -> bool {
        if now < self.next_look {
            return false;
        }
        let (was_asked, found) = (self.crossings_watch.under_way.is_some(), self.crossings_watch.poll(now));
        let next = match (was_asked, self.crossings_watch.under_way.is_some()) {
            (_, false) => LOOK_EVERY,
            (false, true) => LOOK_TAKES,
            (true, true) => ASK_EVERY,
        };
        self.next_look = now + next;
        if let Some(found) = self.offload_watch.poll(now) {
            let (new, gone) = self.note_offloads(found);
            for trouble in new {
                tracing::warn!("{trouble}");
            }
            if gone {
                tracing::info!("something that was told of flow tables is over");
            }
        }
        if let Some(found) = self.stack_watch.poll(now).flatten() {
            self.note_stacked(found);
        }
        if let Some(lost) = self.rules_watch.as_mut().and_then(|watch| watch.poll(now)) {
            self.note_lost_rules(&lost);
        }
        found.flatten().is_some_and(|found| self.note_crossings(found))
    }

    /// Takes over what a look at the interfaces found, and logs what of it is new; true if the rules must
    /// change with it.
    fn note_crossings(&mut self, found: Crossings) -> bool {
        if found == self.crossings {
            return false;
        }
        let before = std::mem::replace(&mut self.crossings, found);
        for name in before.absent.iter().filter(|name| !self.crossings.absent.contains(name)) {
            tracing::info!(interface = name, "the interface is there now");
        }
        // One of the same name that was taken out and made anew between two looks has another index.
        let is_other = |(name, index): (&String, &u32)| before.indices.get(name) != Some(index);
        self.has_arrived |=
            self.crossings.indices.iter().any(is_other) || self.crossings.wireless != before.wireless;
        let old = Self::words(&before);
        for trouble in Self::words(&self.crossings).iter().filter(|trouble| !old.contains(trouble)) {
            tracing::warn!("{trouble}");
        }
        self.crossings.bridged != before.bridged
    }

    /// True once after a configured interface or a Wi-Fi port of a bridge has appeared, or become another.
    pub fn take_arrival(&mut self) -> bool {
        std::mem::take(&mut self.has_arrived)
    }

    /// As [`Crossings::heard_for`].
    #[must_use]
    pub fn heard_for(&self, radio: &str) -> Option<&str> {
        self.crossings.heard_for(radio)
    }

    /// Pairs of a wired and a radio interface that are ports of one bridge.
    #[must_use]
    pub fn bridged(&self) -> &BTreeSet<(String, String)> {
        &self.crossings.bridged
    }

    /// Rules are in since `now`, and are looked at from then on. The first look ends what was amiss before,
    /// if it finds them: rules that replace others replace nothing where somebody flushed those.
    pub fn note_rules(&mut self, set: &RuleSet, backend: Backend, now: Instant) {
        let (set, processors) = (set.clone(), self.offload_watch.processors.clone());
        let find = move || lost(&set, backend);
        self.rules_watch = Some(Watch::new("rules", find, LOOK_AT_RULES_EVERY, processors, now));
    }

    /// The rules could not follow a change, and what is left of them is not what is wanted.
    pub fn note_no_rules(&mut self, trouble: String) {
        if self.rules_trouble.as_ref() != Some(&trouble) {
            tracing::error!("{trouble}");
        }
        self.rules_watch = None;
        self.rules_trouble = Some(trouble);
    }

    /// A look at the rules found those of these programs gone.
    fn note_lost_rules(&mut self, programs: &[&str]) {
        if programs.is_empty() {
            if self.rules_trouble.take().is_some() {
                tracing::info!("the agent's rules are there again");
            }
            return;
        }
        let trouble = format!(
            "the agent's rules are gone ({}), so packets pass it by: the firewall was flushed or loaded anew; \
             restart the agent to put them in again",
            programs.join(", ")
        );
        if self.rules_trouble.as_ref() != Some(&trouble) {
            tracing::error!("{trouble}");
        }
        self.rules_trouble = Some(trouble);
    }

    /// What keeps packets from the agent, each with what to change.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let mut all = Self::words(&self.crossings);
        let hides = |one: &&Stacked| one.weight != Weight::Hint;
        all.extend(self.stacked.iter().filter(hides).map(|one| one.hidden.to_string()));
        all.extend(self.offloads.iter().cloned());
        all.extend(self.rules_trouble.clone());
        all
    }

    fn words(crossings: &Crossings) -> Vec<String> {
        let absent = crossings
            .absent
            .iter()
            .map(|name| format!("{} (yet); what crosses it is managed as soon as it appears", absence(name)));
        let hidden = crossings.hidden.iter().map(ToString::to_string);
        absent.chain(hidden).chain(crossings.doubts.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::datapath::crossing::{Hidden, Port};

    fn table(name: &str, interfaces: &[&str]) -> String {
        let interfaces = interfaces.iter().map(|one| (*one).to_owned()).collect();
        Offload { by: format!("the flow table fw4/{name}"), interfaces }.reason()
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn watching(find: fn() -> Vec<String>) -> Watch<Vec<String>> {
        Watch::new("offloads", find, LOOK_AT_OFFLOADS_EVERY, Vec::new(), Instant::ZERO)
    }

    fn quiet(find: fn() -> Vec<String>) -> Surroundings {
        Surroundings {
            crossings: Crossings::default(),
            has_arrived: false,
            crossings_watch: Watch::new("interfaces", || None, LOOK_EVERY, Vec::new(), Instant::ZERO),
            offloads: Vec::new(),
            offload_watch: watching(find),
            stacked: Vec::new(),
            stack_watch: Watch::new("stacks", || None, LOOK_AT_STACKS_EVERY, Vec::new(), Instant::ZERO),
            rules_watch: None,
            rules_trouble: None,
            next_look: at(2),
        }
    }

    /// Lets a look that has begun end, at one and the same time of the agent.
    fn until_found(watch: &mut Watch<Vec<String>>, now: Instant) -> Vec<String> {
        for _ in 0..2_000 {
            if let Some(found) = watch.poll(now) {
                return found;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("a look does not end")
    }

    #[test]
    fn flow_tables_are_looked_for_once_a_minute_beside_the_asking_thread() {
        static LOOKS: AtomicUsize = AtomicUsize::new(0);
        fn find() -> Vec<String> {
            assert_eq!(std::thread::current().name(), Some("offloads"));
            LOOKS.fetch_add(1, Ordering::SeqCst);
            vec![table("ft", &["wlan0"])]
        }
        let mut watch = watching(find);
        for second in 0..60 {
            assert_eq!(watch.poll(at(second)), None);
        }
        assert_eq!((LOOKS.load(Ordering::SeqCst), watch.under_way.is_some()), (0, false));
        assert_eq!(until_found(&mut watch, at(60)), [table("ft", &["wlan0"])]);
        for second in 60..120 {
            assert_eq!(watch.poll(at(second)), None);
        }
        assert_eq!(LOOKS.load(Ordering::SeqCst), 1);
        let _ = until_found(&mut watch, at(120));
        assert_eq!(LOOKS.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_look_that_takes_long_or_breaks_holds_nobody_up() {
        fn break_down() -> Vec<String> {
            std::panic::panic_any(())
        }
        fn sleep() -> Vec<String> {
            std::thread::sleep(std::time::Duration::from_secs(600));
            Vec::new()
        }
        let mut watch = watching(sleep);
        let began = std::time::Instant::now();
        for minute in 1..100 {
            assert_eq!(watch.poll(at(60 * minute)), None);
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(60));
        let mut watch = watching(break_down);
        assert_eq!(watch.poll(at(60)), None);
        for _ in 0..2_000 {
            if watch.under_way.is_none() {
                break;
            }
            assert_eq!(watch.poll(at(60)), None);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(watch.under_way.is_none(), "the next look can begin");
    }

    #[test]
    fn a_flow_table_that_comes_later_is_a_trouble_until_it_goes_and_is_new_once() {
        let mut around = quiet(Vec::new);
        let (one, unseen) =
            (table("ft", &["wlan0", "wan"]), "whether a flow table takes flows cannot be seen".to_owned());
        let (new, gone) = around.note_offloads(vec![one.clone()]);
        assert_eq!((new.len(), gone), (1, false));
        assert!(new[0].starts_with("the flow table fw4/ft takes flows of wlan0, wan past the firewall"));
        assert_eq!(around.troubles(), new);
        assert_eq!(around.note_offloads(vec![one]), (vec![], false));
        assert_eq!(around.troubles(), new);
        // What cannot be seen is told once as well.
        assert_eq!(around.note_offloads(vec![unseen.clone()]), (vec![unseen.clone()], true));
        assert_eq!(around.note_offloads(vec![unseen.clone()]), (vec![], false));
        assert_eq!(around.troubles(), [unseen]);
        assert_eq!(around.note_offloads(vec![]), (vec![], true));
        assert_eq!(around.troubles(), Vec::<String>::new());
    }

    #[test]
    fn rules_that_are_gone_are_a_trouble_until_they_are_there_again() {
        let mut around = quiet(Vec::new);
        around.note_lost_rules(&[]);
        assert_eq!(around.troubles(), Vec::<String>::new());
        around.note_lost_rules(&["iptables", "ip6tables"]);
        around.note_lost_rules(&["ip6tables"]);
        let troubles = around.troubles();
        assert_eq!(troubles.len(), 1);
        assert!(troubles[0].starts_with("the agent's rules are gone (ip6tables)"), "{troubles:?}");
        assert!(troubles[0].ends_with("restart the agent to put them in again"), "{troubles:?}");
        around.note_lost_rules(&[]);
        assert_eq!(around.troubles(), Vec::<String>::new());
    }

    #[test]
    fn an_upper_interface_is_a_trouble_until_it_goes_and_a_hint_is_none() {
        let mut around = quiet(Vec::new);
        let one = |weight| Stacked {
            weight,
            hidden: Hidden { reason: "packets cross eth0.10".to_owned(), remedy: "write eth0.10".to_owned() },
        };
        for (found, troubles) in [
            (vec![one(Weight::Certain)], vec!["packets cross eth0.10: write eth0.10"]),
            (vec![one(Weight::Possible)], vec!["packets cross eth0.10: write eth0.10"]),
            (vec![one(Weight::Hint)], vec![]),
            (vec![], vec![]),
        ] {
            around.note_stacked(found);
            assert_eq!(around.troubles(), troubles);
        }
    }

    /// Somebody else keeps the kernel's lock for ten minutes.
    #[test]
    fn a_kernel_that_does_not_answer_for_its_interfaces_holds_nobody_up() {
        let mut around = quiet(Vec::new);
        let wait = || {
            std::thread::sleep(std::time::Duration::from_secs(600));
            None
        };
        around.crossings_watch = Watch::new("interfaces", wait, LOOK_EVERY, Vec::new(), Instant::ZERO);
        let began = std::time::Instant::now();
        let (mut now, mut looks) = (Instant::ZERO, 0);
        while now < at(60) {
            now = around.next_look();
            assert!(!around.look_again(now));
            looks += 1;
        }
        assert!((500..700).contains(&looks), "asked ten times a second: {looks}");
        assert!(began.elapsed() < std::time::Duration::from_secs(60));
    }

    #[test]
    fn an_interface_that_appears_is_told_once() {
        let mut around = quiet(Vec::new);
        around.crossings.absent = vec!["wlan0".to_owned()];
        let there = || {
            let indices = BTreeMap::from([("wlan0".to_owned(), 7)]);
            Some(Crossings { indices, ..Crossings::default() })
        };
        around.crossings_watch = Watch::new("interfaces", there, LOOK_EVERY, Vec::new(), Instant::ZERO);
        assert!(!around.take_arrival());
        for _ in 0..2_000 {
            assert!(!around.look_again(around.next_look()), "no rule changes with it");
            if around.crossings.absent.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!((around.take_arrival(), around.take_arrival()), (true, false));
    }

    /// cfg80211 and the driver were loaded anew between two looks: the name is there as before.
    #[test]
    fn an_interface_that_is_another_one_under_the_same_name_has_arrived() {
        let lan = |own, port| {
            let port = Port { index: port, name: "wlan0".to_owned() };
            Crossings {
                indices: BTreeMap::from([("br-lan".to_owned(), own)]),
                wireless: BTreeMap::from([("br-lan".to_owned(), vec![port])]),
                ..Crossings::default()
            }
        };
        for (later, arrives) in [(lan(4, 7), false), (lan(5, 7), true), (lan(4, 8), true)] {
            let mut around = quiet(Vec::new);
            around.crossings = lan(4, 7);
            assert_eq!(around.heard_for("br-lan"), Some("wlan0"));
            around.note_crossings(later.clone());
            assert_eq!((around.take_arrival(), around.take_arrival()), (arrives, false), "{later:?}");
        }
    }

    #[test]
    fn a_bridge_that_comes_later_changes_the_rules_once() {
        let mut around = quiet(Vec::new);
        let bridged = || {
            let pair = ("eth0".to_owned(), "wlan0".to_owned());
            Some(Crossings { bridged: BTreeSet::from([pair]), ..Crossings::default() })
        };
        around.crossings_watch = Watch::new("interfaces", bridged, LOOK_EVERY, Vec::new(), Instant::ZERO);
        let (mut changes, mut now) = (0, Instant::ZERO);
        for _ in 0..2_000 {
            now = around.next_look();
            changes += u32::from(around.look_again(now));
            if changes > 0 && now > at(60) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!((changes, around.bridged().len()), (1, 1), "until {now:?}");
    }

    #[test]
    fn a_look_around_finds_flow_tables_too() {
        fn find() -> Vec<String> {
            vec![table("late", &["eth0"])]
        }
        let mut around = quiet(find);
        for second in 0..60 {
            assert!(!around.look_again(at(second)));
        }
        assert_eq!(around.troubles(), Vec::<String>::new());
        let mut second = 60;
        while around.troubles().is_empty() {
            assert!(second < 4_000, "never found");
            assert!(!around.look_again(at(second)), "no rule changes with a flow table");
            second += 2;
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(around.troubles()[0].contains("fw4/late takes flows of eth0"));
    }
}
