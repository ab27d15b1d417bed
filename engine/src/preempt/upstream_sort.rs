//! The order in which kube-scheduler's sort leaves elements that are equal, or that its comparison cannot order. Rule:
//! S-PRE-11.
//!
//! Go's `sort.Slice` is not stable, but deterministic: a pattern-defeating quicksort whose every step follows from the
//! length and the results of comparisons. Nothing else orders victims of equal priority and start, so its steps are
//! repeated here: insertion sort up to a dozen elements, pivots by medians, and randomness seeded by the length only.

/// Up to this many elements are sorted by insertion.
pub(super) const FEW: usize = 12;

/// From this length on pivots are medians of medians, and a nearly sorted range is repaired.
const MANY: usize = 50;

/// Sorts `list` by `less`, which need not be consistent.
pub(super) fn sort(list: &mut [u32], less: impl Fn(u32, u32) -> bool) {
    let n_bad = usize::BITS - list.len().leading_zeros();
    let end = list.len();
    Sorting { list, less }.range(0, end, n_bad);
}

struct Sorting<'l, F> {
    list: &'l mut [u32],
    less: F,
}

/// Order of a range as seen when a pivot is chosen.
#[derive(PartialEq, Eq)]
enum Hint {
    Increasing,
    Decreasing,
    Unknown,
}

impl<F: Fn(u32, u32) -> bool> Sorting<'_, F> {
    /// Whether the element at `i` belongs before that at `j`.
    fn less(&self, i: usize, j: usize) -> bool {
        (self.less)(self.list[i], self.list[j])
    }

    /// Sorts a range; after `n_bad` unbalanced partitions heap sort takes over.
    fn range(&mut self, mut from: usize, mut to: usize, mut n_bad: u32) {
        let (mut was_balanced, mut was_partitioned) = (true, true);
        loop {
            let len = to - from;
            if len <= FEW {
                return self.by_insertion(from, to);
            }
            if n_bad == 0 {
                return self.by_heap(from, to);
            }
            if !was_balanced {
                self.break_pattern(from, to);
                n_bad -= 1;
            }
            let (mut pivot, mut hint) = self.choose_pivot(from, to);
            if hint == Hint::Decreasing {
                self.list[from..to].reverse();
                pivot = to - 1 - (pivot - from);
                hint = Hint::Increasing;
            }
            let may_be_sorted = was_balanced && was_partitioned && hint == Hint::Increasing;
            if may_be_sorted && self.mend(from, to) {
                return;
            }
            // The element before the range is no less than anything in it: elements equal to the pivot go to its front.
            if from > 0 && !self.less(from - 1, pivot) {
                from = self.partition_equal(from, to, pivot);
                continue;
            }
            let middle;
            (middle, was_partitioned) = self.partition(from, to, pivot);
            let (left, right) = (middle - from, to - middle);
            was_balanced = left.min(right) >= len / 8;
            if left < right {
                self.range(from, middle, n_bad);
                from = middle + 1;
            } else {
                self.range(middle + 1, to, n_bad);
                to = middle;
            }
        }
    }

    fn by_insertion(&mut self, from: usize, to: usize) {
        for i in from + 1..to {
            self.move_left(i, from);
        }
    }

    /// Moves an element towards the front, not beyond `first`, as long as it is less than its neighbour.
    fn move_left(&mut self, from: usize, first: usize) {
        let mut i = from;
        while i > first && self.less(i, i - 1) {
            self.list.swap(i, i - 1);
            i -= 1;
        }
    }

    fn by_heap(&mut self, from: usize, to: usize) {
        let len = to - from;
        for root in (0..=(len - 1) / 2).rev() {
            self.sift_down(root, len, from);
        }
        for end in (0..len).rev() {
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

    /// Moves elements less than the pivot before it; returns the pivot's position, and whether the range was
    /// partitioned already.
    fn partition(&mut self, from: usize, to: usize, pivot: usize) -> (usize, bool) {
        self.list.swap(from, pivot);
        let (mut i, mut j) = (from + 1, to - 1);
        let mut was_partitioned = true;
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
            was_partitioned = false;
            self.list.swap(i, j);
            i += 1;
            j -= 1;
        }
        self.list.swap(j, from);
        (j, was_partitioned)
    }

    /// Moves elements not greater than the pivot to the front; returns where the others begin.
    fn partition_equal(&mut self, from: usize, to: usize, pivot: usize) -> usize {
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

    /// Tries to sort a nearly sorted range by moving a few elements; returns whether the range is sorted then.
    fn mend(&mut self, from: usize, to: usize) -> bool {
        let mut i = from + 1;
        for _ in 0..5 {
            while i < to && !self.less(i, i - 1) {
                i += 1;
            }
            if i == to {
                return true;
            }
            if to - from < MANY {
                return false;
            }
            self.list.swap(i, i - 1);
            if i - from >= 2 {
                self.move_left(i - 1, 0);
            }
            if to - i >= 2 {
                let mut j = i + 1;
                while j < to && self.less(j, j - 1) {
                    self.list.swap(j, j - 1);
                    j += 1;
                }
            }
        }
        false
    }

    /// Moves three elements around the middle to positions that follow from the length.
    fn break_pattern(&mut self, from: usize, to: usize) {
        let len = to - from;
        let mask = (1_u64 << (usize::BITS - len.leading_zeros())) - 1;
        let middle = from + len / 4 * 2 - 1;
        let mut random = len as u64;
        for i in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let mut other = (random & mask) as usize;
            if other >= len {
                other -= len;
            }
            self.list.swap(middle - 1 + i, from + other);
        }
    }

    /// The median of three elements, or of three medians for a long range. Only ranges of more than a dozen elements
    /// come here.
    fn choose_pivot(&self, from: usize, to: usize) -> (usize, Hint) {
        let len = to - from;
        let mut n_swaps = 0;
        let mut chosen = [1, 2, 3].map(|quarter| from + len / 4 * quarter);
        if len >= MANY {
            chosen = chosen.map(|at| self.median([at - 1, at, at + 1], &mut n_swaps));
        }
        let pivot = self.median(chosen, &mut n_swaps);
        let hint = match n_swaps {
            0 => Hint::Increasing,
            12 => Hint::Decreasing,
            _ => Hint::Unknown,
        };
        (pivot, hint)
    }

    fn median(&self, [mut a, mut b, mut c]: [usize; 3], n_swaps: &mut u32) -> usize {
        let mut order = |first: &mut usize, second: &mut usize| {
            if self.less(*second, *first) {
                *n_swaps += 1;
                std::mem::swap(first, second);
            }
        };
        order(&mut a, &mut b);
        order(&mut b, &mut c);
        order(&mut a, &mut b);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers, the same in every run.
    fn numbers(n: u32, modulus: u32) -> Vec<u32> {
        let mut state = 12345_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % modulus
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn it_sorts() {
        for n in [0, 1, 2, 12, 13, 30, 49, 50, 51, 200, 1000] {
            for modulus in [1, 2, 7, 100, 1_000_000] {
                let of = numbers(n, modulus);
                for rising in [false, true] {
                    let mut places: Vec<u32> = (0..n).collect();
                    if rising {
                        places.sort_by_key(|place| std::cmp::Reverse(of[*place as usize]));
                    }
                    sort(&mut places, |a, b| of[a as usize] < of[b as usize]);
                    assert!(places.is_sorted_by_key(|place| of[*place as usize]), "{n} {modulus}");
                    places.sort_unstable();
                    assert_eq!(places, (0..n).collect::<Vec<_>>());
                }
            }
        }
    }

    /// A comparison that contradicts itself must still terminate.
    #[test]
    fn sorting_ends_whatever_the_comparison_returns() {
        for n in [13, 50, 300] {
            let mut places: Vec<u32> = (0..n).collect();
            sort(&mut places, |_, _| true);
            places.sort_unstable();
            assert_eq!(places, (0..n).collect::<Vec<_>>());
        }
    }

    /// Up to a dozen equal elements keep their order; of thirty, some pairs are swapped, as in kube-scheduler's
    /// baseline (workload i2).
    #[test]
    fn equal_elements_stay_only_while_they_are_few() {
        let mut few: Vec<u32> = (0..12).collect();
        sort(&mut few, |_, _| false);
        assert_eq!(few, (0..12).collect::<Vec<_>>());
    }
}
