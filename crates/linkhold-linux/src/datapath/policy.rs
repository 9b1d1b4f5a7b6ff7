//! Whether routing follows rules of the operator's (`ip rule`), which treat the agent's own packets unlike
//! those of the flows.
//!
//! A packet of the agent's own comes in by no interface, has no address yet when its route is looked up, and
//! carries the agent's mark. So rules by `iif`, `from` or another mark, and routes for one source, pass it
//! over. Source: Linux, net/ipv4/raw.c (`raw_sendmsg`) and net/ipv6/raw.c (`rawv6_sendmsg`): the flow that is
//! looked up has the socket's mark and address, not those in the packet's header.

use netlink_packet_route::rule::{RuleAttribute, RuleMessage};

use crate::interfaces::survey::routing_rules;

/// Rules that each network namespace begins with: priority, and table (local, main, default). Source: Linux,
/// net/ipv4/fib_rules.c (`fib_default_rules_init`); IPv6 has the first two.
const KERNELS_OWN: [(u32, u32); 3] = [(0, 255), (32_766, 254), (32_767, 253)];

/// What rules of the operator's do to the agent's own packets, which carry this mark, and what to change;
/// `None` where there are none, or one is for the mark.
#[must_use]
pub fn doubt(mark: u32) -> Option<String> {
    // A kernel without rules, or without IPv6, refuses the question.
    judge(
        &[("ip", routing_rules(false)), ("ip -6", routing_rules(true))].map(|(program, rules)| {
            let refused = |error| tracing::debug!(%error, program, "routing rules cannot be read");
            (program, rules.map_err(refused).unwrap_or_default())
        }),
        mark,
    )
}

fn judge(families: &[(&str, Vec<RuleMessage>)], mark: u32) -> Option<String> {
    let misled = families.iter().filter(|(_, rules)| {
        rules.iter().any(|rule| !is_kernels_own(rule)) && !rules.iter().any(|rule| is_for(rule, mark))
    });
    let programs: Vec<&str> = misled.map(|(program, _)| *program).collect();
    let all = |end: &str| {
        programs.iter().map(|program| format!("`{program} rule{end}`")).collect::<Vec<_>>().join(" and ")
    };
    (!programs.is_empty()).then(|| {
        format!(
            "{} has rules beyond the kernel's own, and those by `iif`, `from` or another mark pass over the packets that \
             the agent itself sends, which may then leave by the wrong way: where one way is right for all of them, {}",
            all(""),
            all(&format!(" add fwmark {mark} lookup TABLE")),
        )
    })
}

/// True for a rule that every network namespace begins with, or that the kernel makes with the first VRF and
/// leaves (drivers/net/vrf.c).
fn is_kernels_own(rule: &RuleMessage) -> bool {
    let (mut priority, mut table, mut is_of_vrfs) = (0, u32::from(rule.header.table), false);
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Priority(told) => priority = *told,
            RuleAttribute::Table(told) => table = *told,
            RuleAttribute::L3MDev(told) => is_of_vrfs = *told,
            _ => {}
        }
    }
    is_of_all_networks(rule)
        && !rule.attributes.iter().any(is_selector)
        && (is_of_vrfs || KERNELS_OWN.contains(&(priority, table)))
}

/// True for a rule that asks neither for a source nor for a destination.
fn is_of_all_networks(rule: &RuleMessage) -> bool {
    rule.header.src_len == 0 && rule.header.dst_len == 0
}

/// True for what narrows a rule down to some packets.
fn is_selector(attribute: &RuleAttribute) -> bool {
    matches!(
        attribute,
        RuleAttribute::Iifname(_)
            | RuleAttribute::Oifname(_)
            | RuleAttribute::FwMark(_)
            | RuleAttribute::UidRange(_)
            | RuleAttribute::IpProtocol(_)
            | RuleAttribute::SourcePortRange(_)
            | RuleAttribute::DestinationPortRange(_)
    )
}

/// True for a rule that the operator made for packets of this mark, and for all of them.
fn is_for(rule: &RuleMessage, mark: u32) -> bool {
    let (mut wanted, mut mask) = (None, u32::MAX);
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::FwMark(told) => wanted = Some(*told),
            RuleAttribute::FwMask(told) => mask = *told,
            other if is_selector(other) => return false,
            _ => {}
        }
    }
    // As fib_rule_match has it.
    is_of_all_networks(rule) && wanted.is_some_and(|wanted| (wanted ^ mark) & mask == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: u32 = 27_752;

    fn rule(priority: u32, table: u32, others: &[RuleAttribute]) -> RuleMessage {
        let mut rule = RuleMessage::default();
        rule.header.table = u8::try_from(table).unwrap_or_default();
        rule.attributes = vec![RuleAttribute::Table(table), RuleAttribute::SuppressPrefixLen(u32::MAX)];
        rule.attributes.extend((priority > 0).then_some(RuleAttribute::Priority(priority)));
        rule.attributes.extend_from_slice(others);
        rule
    }

    fn kernels_own() -> Vec<RuleMessage> {
        KERNELS_OWN.map(|(priority, table)| rule(priority, table, &[])).to_vec()
    }

    fn told(others: &[RuleMessage]) -> Option<String> {
        judge(&[("ip", [kernels_own(), others.to_vec()].concat()), ("ip -6", kernels_own())], MARK)
    }

    #[test]
    fn rules_of_the_operators_are_told_until_one_is_for_the_agents_packets() {
        use RuleAttribute::{FwMark, FwMask, Iifname};
        assert_eq!(told(&[]), None);
        let by_interface = rule(1_000, 100, &[Iifname("wlan0".to_owned())]);
        let text = told(std::slice::from_ref(&by_interface)).expect("a doubt");
        assert!(text.starts_with("`ip rule` has rules beyond the kernel's own"), "{text}");
        assert!(text.ends_with("`ip rule add fwmark 27752 lookup TABLE`"), "{text}");
        assert!(told(&[rule(2_000, 100, &[FwMark(1), FwMask(0xff)])]).is_some(), "another mark");
        let mut from = rule(32_766, 254, &[]);
        from.header.src_len = 24;
        assert!(told(&[from]).is_some(), "main, but for one network");
        for own in
            [&[FwMark(MARK)][..], &[FwMark(MARK & 0xff00), FwMask(0xff00)], &[FwMark(MARK), FwMask(0xff00)]]
        {
            assert_eq!(told(&[by_interface.clone(), rule(900, 101, own)]), None);
        }
        let mut of_some = rule(900, 101, &[FwMark(MARK)]);
        of_some.header.src_len = 8;
        assert!(told(&[by_interface.clone(), of_some]).is_some(), "of one network alone");
        assert_eq!(
            told(&[rule(1_000, 0, &[RuleAttribute::L3MDev(true)])]),
            None,
            "the kernel's own for VRFs"
        );
        let forwarded = rule(900, 101, &[FwMark(MARK), Iifname("wlan0".to_owned())]);
        assert!(told(&[forwarded]).is_some(), "nothing of the agent's comes in");
        let both = [("ip", vec![by_interface.clone()]), ("ip -6", vec![by_interface])];
        let text = judge(&both, MARK).expect("a doubt");
        assert!(text.starts_with("`ip rule` and `ip -6 rule` has"), "{text}");
    }

    #[test]
    fn the_kernels_own_rules_are_read() {
        for ipv6 in [false, true] {
            match routing_rules(ipv6) {
                Ok(rules) => assert!(rules.iter().any(is_kernels_own), "{rules:?}"),
                // A kernel without IPv6, or without rules.
                Err(error) => assert!(ipv6, "{error}"),
            }
        }
    }
}
