//! IP addresses and blocks of them, with Kubernetes' refusals of zones and mapped addresses (S-DRA-115).

use core::net::{IpAddr, Ipv6Addr};
use std::fmt;

/// An IP address; never an IPv6 address that stands for an IPv4 one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(IpAddr);

/// A block of addresses, as written: the address may have bits beyond the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) address: Address,
    pub(crate) length: u8,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Option<Address> {
        let address: IpAddr = text.parse().ok()?;
        let is_mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
        (!is_mapped).then_some(Address(address))
    }

    pub(crate) fn family(self) -> i64 {
        if self.0.is_ipv4() { 4 } else { 6 }
    }

    pub(crate) fn n_bits(self) -> u8 {
        if self.0.is_ipv4() { 32 } else { 128 }
    }

    pub(crate) fn is_unspecified(self) -> bool {
        self.0.is_unspecified()
    }

    pub(crate) fn is_loopback(self) -> bool {
        self.0.is_loopback()
    }

    pub(crate) fn is_link_local_multicast(self) -> bool {
        match self.0 {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        }
    }

    pub(crate) fn is_link_local_unicast(self) -> bool {
        match self.0 {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
        }
    }

    pub(crate) fn is_global_unicast(self) -> bool {
        let is_broadcast = matches!(self.0, IpAddr::V4(v4) if v4.is_broadcast());
        !is_broadcast
            && !self.is_unspecified()
            && !self.is_loopback()
            && !self.0.is_multicast()
            && !self.is_link_local_unicast()
    }

    fn bits(self) -> u128 {
        match self.0 {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        }
    }

    fn masked(self, length: u8) -> Address {
        let kept = self.bits() & !u128::MAX.checked_shr(u32::from(length)).unwrap_or(0);
        Address(match self.0 {
            IpAddr::V4(_) => {
                let [a, b, c, d, ..] = kept.to_be_bytes();
                IpAddr::from([a, b, c, d])
            }
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(kept)),
        })
    }
}

impl Prefix {
    pub(crate) fn parse(text: &str) -> Option<Prefix> {
        let (address, length) = text.rsplit_once('/')?;
        let address = Address::parse(address)?;
        let is_plain = length.bytes().all(|byte| byte.is_ascii_digit())
            && (length.len() == 1 || !length.starts_with('0'));
        let length = length.parse().ok().filter(|_| is_plain)?;
        (length <= address.n_bits()).then_some(Prefix { address, length })
    }

    pub(crate) fn masked(self) -> Prefix {
        Prefix { address: self.address.masked(self.length), ..self }
    }

    pub(crate) fn contains(self, address: Address) -> bool {
        self.address.family() == address.family()
            && self.address.masked(self.length) == address.masked(self.length)
    }

    pub(crate) fn contains_block(self, other: Prefix) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Prefix};

    /// S-DRA-115: blocks contain addresses and blocks of their family.
    #[test]
    fn blocks() {
        let block = Prefix::parse("10.1.2.3/8").unwrap();
        assert!(block.contains(Address::parse("10.255.0.1").unwrap()));
        assert!(!block.contains(Address::parse("11.0.0.1").unwrap()));
        assert!(!block.contains(Address::parse("::1").unwrap()));
        assert_eq!(block.masked().to_string(), "10.0.0.0/8");
        assert!(block.contains_block(Prefix::parse("10.0.0.0/9").unwrap()));
        assert!(!block.contains_block(Prefix::parse("10.0.0.0/7").unwrap()));
        for broken in
            ["10.0.0.0/33", "10.0.0.0/08", "10.0.0.0", "::ffff:1.2.3.4/8", "fe80::1%eth0/8"]
        {
            assert!(Prefix::parse(broken).is_none(), "{broken}");
        }
    }
}
