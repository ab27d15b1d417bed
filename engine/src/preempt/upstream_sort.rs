//! Go's `sort.Slice`, step by step, because kube-scheduler sorts potential victims with it. Rule: S-PRE-11.
//!
//! That sort is not stable, but deterministic: a pattern-defeating quicksort whose steps depend only on the length and
//! on the results of the comparisons. Nothing else orders victims with equal priority and start time, so its steps are
//! repeated here: insertion sort up to a dozen elements, pivots by medians, and random numbers that depend only on the
//! length.

/// Up to this many elements are sorted by insertion.
pub(super) const FEW: usize = 12;

/// From this length on pivots are medians of medians, and a nearly sorted range is repaired.
const MANY: usize = 50;

/// Sorts `list` by `less`, which need not be consistent, as Go's `sort.Slice` does.
///
/// The tests' naive scheduler uses this sort, too: it is checked with recorded orders, not with a second
/// implementation.
pub fn sort(list: &mut [u32], less: impl Fn(u32, u32) -> bool) {
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

    /// Swaps three elements around the middle with others at indexes that depend on the length only.
    fn break_pattern(&mut self, from: usize, to: usize) {
        let len = to - from;
        let mask = (1_u64 << (usize::BITS - len.leading_zeros())) - 1;
        let middle = from + len / 4 * 2;
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

    /// The order after sorting the positions of `keys` by key.
    fn sorted(keys: &[i64]) -> Vec<u32> {
        let mut positions: Vec<u32> = (0..keys.len() as u32).collect();
        sort(&mut positions, |a, b| keys[a as usize] < keys[b as usize]);
        positions
    }

    /// Twelve elements are sorted by insertion, which is stable.
    #[test]
    fn a_dozen_keep_the_order_of_equals() {
        assert_eq!(sorted(&[0; 12]), (0..12).collect::<Vec<_>>());
        let keys = [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0];
        assert_eq!(sorted(&keys), [1, 3, 5, 7, 9, 11, 0, 2, 4, 6, 8, 10]);
        // Pods without a start time: each is less than its neighbour, so their order is reversed.
        let mut positions: Vec<u32> = (0..12).collect();
        sort(&mut positions, |_, _| true);
        assert_eq!(positions, (0..12).rev().collect::<Vec<_>>());
    }

    /// kube-scheduler's victims on node `node-1074` of its baseline (workload i2, 30 pods a node): the pods `e-101074`,
    /// `e-1074`, `e-106074` and `e-6074` in this order, which are numbers 20, 0, 21 and 1 on the node.
    ///
    /// Only the victims are recorded, which are the last four of the order. Pods 20 to 29 are as important as pods 0 to
    /// 9.
    #[test]
    fn the_order_of_recorded_victims() {
        let pods = 0..30_i64;
        let keys: Vec<i64> = pods
            .map(|pod| {
                let priority = [0, 0, 5, 10][pod as usize % 4];
                let seconds_before = 1000 + 7919 * (1074 + 5000 * pod) % 100_000;
                -priority * 1_000_000 - seconds_before
            })
            .collect();
        assert_eq!(&sorted(&keys)[26..], [20, 0, 21, 1]);
        // Steps of the remaining order, as in the vectors below: the pivots 7, 14, 21 are in order, and so hint at a
        // sorted list; the first neighbours in the wrong order end that, because the list is short; two partitions
        // follow.
        assert_eq!(
            sorted(&keys)[..26],
            [
                3, 23, 27, 7, 11, 15, 19, 2, 22, 26, 6, 10, 14, 18, 4, 24, 25, 5, 28, 8, 29, 9, 12,
                13, 16, 17
            ]
        );
    }

    /// Thirteen elements, worked out by hand with the steps of Go's `pdqsort_func` (`src/sort/zsortfunc.go`):
    ///
    /// * The pivot is the median of the elements 3, 6 and 9, with keys 1, 0 and 1. Ordering 3 and 6 is the only swap,
    ///   so the pivot is element 3 and there is no hint.
    /// * The pivot is swapped to the front. From the left, elements with key 1 are searched, from the right those with
    ///   key 0. They are swapped in pairs: (1, 12), (5, 10), (7, 8).
    /// * The pivot is swapped with the last element that is less, which is 8 at index 7.
    /// * Both parts have at most 12 elements of equal keys; insertion keeps their order.
    #[test]
    fn thirteen_elements_of_two_keys() {
        let keys = [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0];
        assert_eq!(sorted(&keys), [8, 12, 2, 0, 4, 10, 6, 3, 7, 9, 5, 11, 1]);
    }

    /// Vectors for the other steps. They were computed outside this repository with a line-by-line transcription of
    /// Go's `pdqsort_func` and its helpers, which also gives the recorded order above.
    #[test]
    fn orders_of_upstreams_sort() {
        // A hint that the list is sorted, which is wrong; a partition so unbalanced that three elements are scattered
        // (xorshift of the length 15: shifts 13, 7, 17); then elements equal to the pivot are moved to the front.
        assert_eq!(
            sorted(&[1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0]),
            [8, 9, 2, 3, 4, 5, 1, 15, 13, 7, 10, 11, 12, 0, 14, 6]
        );
        // Twelve swaps among the nine elements for the pivot: the list is reversed, equal elements with it, and is
        // sorted then.
        let mut falling: Vec<i64> = (0..50).rev().collect();
        for i in [1, 21, 41] {
            falling[i] = falling[i - 1];
        }
        assert_eq!(sorted(&falling), (0..50).rev().collect::<Vec<_>>());
        // A sorted list with two faults: element 5 is less than three before it, 31 is greater than the next. Each is
        // shifted to its place, and equal elements keep their order.
        let mut rising: Vec<i64> = (0..50).map(|i| i / 2).collect();
        rising[5] = 0;
        rising.swap(31, 32);
        let mut expected: Vec<u32> = (0..50).collect();
        expected[2..6].rotate_right(1);
        expected.swap(31, 32);
        assert_eq!(sorted(&rising), expected);
        // Five faults are mended in vain; then partitions, a scattering, and elements equal to the pivot.
        let mixed = [
            3, 0, 1, 3, 3, 2, 1, 3, 3, 3, 1, 0, 2, 3, 3, 1, 3, 0, 1, 1, 2, 1, 1, 2, 3, 3, 2, 1, 2,
            3, 1, 2, 1, 3, 2, 2, 3, 3, 2, 2, 3, 3, 0, 1, 0, 2, 1, 0, 1, 1,
        ];
        assert_eq!(
            sorted(&mixed),
            [
                1, 47, 17, 11, 42, 44, 46, 19, 49, 18, 32, 30, 27, 43, 10, 15, 6, 2, 22, 48, 21,
                20, 39, 23, 34, 38, 26, 5, 28, 35, 45, 31, 12, 24, 33, 29, 36, 37, 25, 16, 40, 41,
                14, 13, 9, 8, 7, 4, 3, 0
            ]
        );
        // A comparison that is always true splits off one element each time. After five scatterings a heap takes over.
        let mut positions: Vec<u32> = (0..20).collect();
        sort(&mut positions, |_, _| true);
        assert_eq!(
            positions,
            [6, 0, 4, 16, 12, 3, 17, 1, 9, 15, 14, 7, 5, 13, 8, 18, 2, 11, 19, 10]
        );
    }
}
