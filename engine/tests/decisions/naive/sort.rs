//! The sort of kube-scheduler's language, which is not stable: where pods are equal, its steps decide (S-PRE-11).
//!
//! A quicksort that looks for patterns: up to a dozen elements are sorted by insertion; a pivot is the median of three, or of
//! nine; what looks sorted is tried as such, what was badly split is shuffled, and after too many bad splits a heap takes over.

/// Up to so many are sorted by insertion.
const FEW: usize = 12;
/// From so many on the pivot is a median of medians, and a list with few faults is mended.
const MANY: usize = 50;

/// Sorts by `less`, which may be no order at all: it is asked about the same pairs in the same order.
pub(crate) fn sort<T>(list: &mut [T], less: impl Fn(&T, &T) -> bool) {
    let n = list.len();
    let limit = bit_length(n);
    Sort { list, less }.range(0, n, limit);
}

struct Sort<'a, T, F> {
    list: &'a mut [T],
    less: F,
}

#[derive(PartialEq)]
enum Hint {
    Unknown,
    Increasing,
    Decreasing,
}

impl<T, F: Fn(&T, &T) -> bool> Sort<'_, T, F> {
    fn less(&self, i: usize, j: usize) -> bool {
        (self.less)(&self.list[i], &self.list[j])
    }

    fn range(&mut self, mut from: usize, mut to: usize, mut limit: u32) {
        let (mut was_balanced, mut was_partitioned) = (true, true);
        loop {
            let n = to - from;
            if n <= FEW {
                return self.by_insertion(from, to);
            }
            if limit == 0 {
                return self.by_heap(from, to);
            }
            if !was_balanced {
                self.shuffle(from, to);
                limit -= 1;
            }
            let (mut pivot, mut hint) = self.pivot(from, to);
            if hint == Hint::Decreasing {
                self.list[from..to].reverse();
                pivot = to - 1 - (pivot - from);
                hint = Hint::Increasing;
            }
            let looks_sorted = was_balanced && was_partitioned && hint == Hint::Increasing;
            if looks_sorted && self.mend(from, to) {
                return;
            }
            // Nothing here is less than what stands before: the pivot is the least, and its equals go first.
            if from > 0 && !self.less(from - 1, pivot) {
                from = self.split_equals(from, to, pivot);
                continue;
            }
            let (middle, was_split) = self.split(from, to, pivot);
            was_partitioned = was_split;
            let (n_left, n_right) = (middle - from, to - middle);
            was_balanced = n_left.min(n_right) >= n / 8;
            if n_left < n_right {
                self.range(from, middle, limit);
                from = middle + 1;
            } else {
                self.range(middle + 1, to, limit);
                to = middle;
            }
        }
    }

    fn by_insertion(&mut self, from: usize, to: usize) {
        for end in from + 1..to {
            let mut at = end;
            while at > from && self.less(at, at - 1) {
                self.list.swap(at, at - 1);
                at -= 1;
            }
        }
    }

    fn by_heap(&mut self, from: usize, to: usize) {
        let n = to - from;
        for root in (0..=(n - 1) / 2).rev() {
            self.sift_down(root, n, from);
        }
        for end in (0..n).rev() {
            self.list.swap(from, from + end);
            self.sift_down(0, end, from);
        }
    }

    fn sift_down(&mut self, mut root: usize, end: usize, from: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && self.less(from + child, from + child + 1) {
                child += 1;
            }
            if !self.less(from + root, from + child) {
                return;
            }
            self.list.swap(from + root, from + child);
            root = child;
        }
    }

    /// Swaps three elements in the middle with any others.
    fn shuffle(&mut self, from: usize, to: usize) {
        let n = to - from;
        let mut random = n as u64;
        let mask = (1_u64 << bit_length(n)) - 1;
        let middle = from + n / 4 * 2 - 1;
        for i in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = usize::try_from(random & mask).expect("small");
            let other = if other >= n { other - n } else { other };
            self.list.swap(middle - 1 + i, from + other);
        }
    }

    fn pivot(&self, from: usize, to: usize) -> (usize, Hint) {
        let quarter = (to - from) / 4;
        let mut places = [from + quarter, from + 2 * quarter, from + 3 * quarter];
        let mut n_swaps = 0;
        if to - from >= MANY {
            places = places.map(|at| self.median([at - 1, at, at + 1], &mut n_swaps));
        }
        let pivot = self.median(places, &mut n_swaps);
        match n_swaps {
            0 => (pivot, Hint::Increasing),
            12 => (pivot, Hint::Decreasing),
            _ => (pivot, Hint::Unknown),
        }
    }

    fn median(&self, [mut a, mut b, mut c]: [usize; 3], n_swaps: &mut usize) -> usize {
        let mut order = |i: &mut usize, j: &mut usize| {
            if self.less(*j, *i) {
                *n_swaps += 1;
                std::mem::swap(i, j);
            }
        };
        order(&mut a, &mut b);
        order(&mut b, &mut c);
        order(&mut a, &mut b);
        b
    }

    /// Whether the list is sorted after a few faults are mended.
    fn mend(&mut self, from: usize, to: usize) -> bool {
        let mut at = from + 1;
        for _ in 0..5 {
            while at < to && !self.less(at, at - 1) {
                at += 1;
            }
            if at == to {
                return true;
            }
            if to - from < MANY {
                return false;
            }
            self.list.swap(at, at - 1);
            if at - from >= 2 {
                for i in (1..at).rev() {
                    if !self.less(i, i - 1) {
                        break;
                    }
                    self.list.swap(i, i - 1);
                }
            }
            if to - at >= 2 {
                for i in at + 1..to {
                    if !self.less(i, i - 1) {
                        break;
                    }
                    self.list.swap(i, i - 1);
                }
            }
        }
        false
    }

    /// Those less than the pivot, the pivot, and the others; its place, and whether they stood so.
    fn split(&mut self, from: usize, to: usize, pivot: usize) -> (usize, bool) {
        self.list.swap(from, pivot);
        let (mut i, mut j) = (from + 1, to - 1);
        let mut n_swaps = 0;
        loop {
            while i <= j && self.less(i, from) {
                i += 1;
            }
            while i <= j && !self.less(j, from) {
                j -= 1;
            }
            if i > j {
                break;
            }
            self.list.swap(i, j);
            n_swaps += 1;
            i += 1;
            j -= 1;
        }
        self.list.swap(j, from);
        (j, n_swaps == 0)
    }

    /// The pivot and its equals first; where the others begin.
    fn split_equals(&mut self, from: usize, to: usize, pivot: usize) -> usize {
        self.list.swap(from, pivot);
        let (mut i, mut j) = (from + 1, to - 1);
        loop {
            while i <= j && !self.less(from, i) {
                i += 1;
            }
            while i <= j && self.less(from, j) {
                j -= 1;
            }
            if i > j {
                return i;
            }
            self.list.swap(i, j);
            i += 1;
            j -= 1;
        }
    }
}

fn bit_length(n: usize) -> u32 {
    usize::BITS - n.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever becomes of equals, what differs is in order, and nothing is lost.
    #[test]
    fn it_sorts() {
        let mut random = 1_u64;
        for n in 0..300 {
            for n_values in [1, 2, 7, 1000] {
                let mut next = || {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (random >> 33) % n_values
                };
                let list: Vec<(u64, usize)> = (0..n).map(|i| (next(), i)).collect();
                let mut sorted = list.clone();
                sort(&mut sorted, |a, b| a.0 < b.0);
                assert!(sorted.is_sorted_by_key(|(value, _)| *value), "{list:?}");
                sorted.sort_unstable_by_key(|(_, i)| *i);
                assert_eq!(sorted, list);
            }
        }
    }

    #[test]
    fn a_dozen_keep_the_order_of_equals_and_more_do_not() {
        let places = |n: usize| {
            let mut list: Vec<usize> = (0..n).collect();
            sort(&mut list, |a, b| a % 2 < b % 2);
            list
        };
        assert_eq!(places(12), [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]);
        assert!(!places(13)[..7].is_sorted());
    }
}
