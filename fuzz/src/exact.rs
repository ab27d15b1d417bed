//! Whole numbers of any size, slow and plain, as a reference for fast arithmetic.

/// A whole number, as decimal digits from the last to the first.
pub(crate) struct Exact(Vec<u8>);

impl Exact {
    /// Reads ASCII digits, the most significant first.
    pub(crate) fn of_digits(digits: &[u8]) -> Exact {
        Exact(digits.iter().rev().map(|digit| digit - b'0').collect())
    }

    pub(crate) fn times(mut self, factor: u64) -> Exact {
        let mut carry = 0;
        for digit in &mut self.0 {
            carry += u64::from(*digit) * factor;
            *digit = (carry % 10) as u8;
            carry /= 10;
        }
        while carry > 0 {
            self.0.push((carry % 10) as u8);
            carry /= 10;
        }
        self
    }

    pub(crate) fn times_ten_to_the(mut self, power: usize) -> Exact {
        self.0.splice(0..0, std::iter::repeat_n(0, power));
        self
    }

    /// The quotient, rounded up to a whole number.
    pub(crate) fn over_ten_to_the(mut self, power: usize) -> Exact {
        let rest = self.0.drain(..power.min(self.0.len())).any(|digit| digit != 0);
        if !rest {
            return self;
        }
        for digit in &mut self.0 {
            if *digit < 9 {
                *digit += 1;
                return self;
            }
            *digit = 0;
        }
        self.0.push(1);
        self
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.iter().all(|digit| *digit == 0)
    }

    /// The value, or `limit` if the value is larger.
    pub(crate) fn at_most(&self, limit: u128) -> u128 {
        let value = self.0.iter().rev().try_fold(0_u128, |value, digit| {
            value.checked_mul(10)?.checked_add(u128::from(*digit))
        });
        value.map_or(limit, |value| value.min(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_as_machine_integers_do_where_those_can() {
        let check = |number: Exact, expected: u128| assert_eq!(number.at_most(u128::MAX), expected);
        let of = |digits: &str| Exact::of_digits(digits.as_bytes());
        check(of(""), 0);
        check(of("00120"), 120);
        check(of("99").times(1 << 20), 99 << 20);
        check(of("7").times_ten_to_the(3), 7_000);
        check(of("7001").over_ten_to_the(3), 8);
        check(of("7000").over_ten_to_the(3), 7);
        check(of("9999").over_ten_to_the(2), 100);
        check(of("5").over_ten_to_the(3), 1);
        check(of("0").over_ten_to_the(3), 0);
        assert_eq!(of("1").times_ten_to_the(60).at_most(77), 77);
        assert!(of("000").is_zero() && !of("010").is_zero());
    }
}
