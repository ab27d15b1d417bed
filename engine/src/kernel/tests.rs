//! Tests that every instruction set gives the bits of the integer formulas.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use super::*;
use crate::domain::DomainId;
use crate::hash::hash_name;
use crate::rows::{ROWS, RowSet};

type Cells = Vec<i64>;

fn array<T: Copy + Default>(cells: &[T]) -> Box<[T; ROWS]> {
    let mut array = Box::new([T::default(); ROWS]);
    array.copy_from_slice(cells);
    array
}

/// Allocatable amounts within the kernels' bounds: of every magnitude, with some extremes.
fn allocatable() -> impl Strategy<Value = Cells> {
    let cell = prop_oneof![
        1..EXACT_LIMIT,
        1..1000_i64,
        (0..44_u32).prop_map(|bit| 1_i64 << bit),
        Just(EXACT_LIMIT - 1),
        Just(16_000_i64),
    ];
    prop::collection::vec(cell, ROWS)
}

/// Used amounts: below, around and far above the allocatable amounts.
fn used() -> impl Strategy<Value = Cells> {
    let cell = prop_oneof![
        0..EXACT_LIMIT,
        0..1000_i64,
        Just(0),
        Just(1_i64 << 60),
        (0..44_u32).prop_map(|b| 1 << b)
    ];
    prop::collection::vec(cell, ROWS)
}

fn rows() -> impl Strategy<Value = RowSet> {
    prop_oneof![
        any::<[u64; ROWS / 64]>().prop_map(RowSet),
        Just(RowSet::EMPTY),
        Just(RowSet([u64::MAX; ROWS / 64]))
    ]
}

fn config() -> Config {
    Config {
        cases: 300,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn allocation(
        a0 in allocatable(), a1 in allocatable(), u0 in used(), u1 in used(), request in used(),
        weights in (1..=100_i64, 0..=100_i64),
    ) {
        let (a, u) = ([array(&a0), array(&a1)], [array(&u0), array(&u1)]);
        let inverse = [0, 1].map(|i| a[i].map(|whole| 1.0 / whole as f64));
        let weights = [weights.0, weights.1];
        let resource = |i: usize| ResourceInput {
            allocatable: &a[i], inverse: &inverse[i], used: &u[i], request: request[i], weight: weights[i],
        };
        let input = AllocationInput { resources: [resource(0), resource(1)] };
        for kernels in Kernels::all() {
            let (mut least, mut most) = ([5; ROWS], [5; ROWS]);
            kernels.add_least_allocated(&mut least, &input, 3);
            kernels.add_most_allocated(&mut most, &input, 3);
            for row in 0..ROWS {
                let mean = |percent: fn(i128, i128) -> i128| {
                    let of = |i: usize| {
                        let used = i128::from(u[i][row]) + i128::from(request[i]);
                        percent(i128::from(a[i][row]), used) * i128::from(weights[i])
                    };
                    (of(0) + of(1)) / i128::from(weights[0] + weights[1])
                };
                let expected_least = mean(|a, u| if u > a { 0 } else { (a - u) * 100 / a });
                let expected_most = mean(|a, u| u.min(a) * 100 / a);
                prop_assert_eq!(i128::from(least[row]), 5 + 3 * expected_least, "{:?}", kernels);
                prop_assert_eq!(i128::from(most[row]), 5 + 3 * expected_most, "{:?}", kernels);
            }
        }
    }

    #[test]
    fn balance(a0 in allocatable(), a1 in allocatable(), u0 in used(), u1 in used(), request in used()) {
        let (a0, a1, u0, u1) = (array(&a0), array(&a1), array(&u0), array(&u1));
        let request = [request[0], request[1]];
        let balance = std::array::from_fn(|row| balance_of([a0[row], a1[row]], [u0[row], u1[row]]));
        let input = BalanceInput { allocatable: [&a0, &a1], used: [&u0, &u1], balance: &balance, request };
        for kernels in Kernels::all() {
            let mut scores = [1; ROWS];
            kernels.add_balance(&mut scores, &input, 2);
            for row in 0..ROWS {
                let fraction = |used: i64, alloc: i64| (used as f64 / alloc as f64).min(1.0);
                let b = |f0: f64, f1: f64| ((1.0 - ((f0 - f1) / 2.0).abs()) * 100.0) as i64;
                let before = b(fraction(u0[row], a0[row]), fraction(u1[row], a1[row]));
                let with = b(fraction(u0[row] + request[0], a0[row]), fraction(u1[row] + request[1], a1[row]));
                let expected = 50 + (50 + with - before) / 2;
                prop_assert_eq!(i64::from(scores[row]), 1 + 2 * expected, "{:?} row {}", kernels, row);
            }
        }
    }

    #[test]
    fn normalize(
        values in prop::collection::vec(prop_oneof![0..i32::MAX, 0..300, Just(0)], ROWS),
        shift in prop_oneof![Just(0), 0..1000_i32],
    ) {
        let values = array(&values);
        let (lowest, highest) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
        let shifted = array(&values.map(|value| value.saturating_sub(shift)));
        let (low, high) = (lowest.saturating_sub(shift), highest.saturating_sub(shift));
        prop_assume!(highest > 0 && low < high);
        for kernels in Kernels::all() {
            let (mut spread, mut range) = ([7; ROWS], [7; ROWS]);
            kernels.add_spread(&mut spread, &values, (lowest, highest), 3);
            kernels.add_range(&mut range, &shifted, (low, high), 3);
            for row in 0..ROWS {
                let [lo, hi, value] = [lowest, highest, values[row]].map(i64::from);
                prop_assert_eq!(i64::from(spread[row]), 7 + 3 * (100 * (hi + lo - value) / hi), "{:?}", kernels);
                let [lo, hi, value] = [low, high, shifted[row]].map(i64::from);
                let share = (value - lo) as f64 / (hi - lo) as f64;
                prop_assert_eq!(i64::from(range[row]), 7 + 3 * (100.0 * share) as i64, "{:?}", kernels);
            }
        }
    }

    #[test]
    fn rounding(costs in prop::collection::vec(
        prop_oneof![0.0..1e9_f64, (0..1_000_000_i32).prop_map(|half| f64::from(half) / 2.0), 0.499..0.501_f64], ROWS,
    )) {
        let costs = array(&costs);
        for kernels in Kernels::all() {
            let rounded = kernels.round_costs(&costs);
            for row in 0..ROWS {
                prop_assert_eq!(rounded[row], costs[row].round() as i32, "{:?} {}", kernels, costs[row]);
            }
        }
    }

    #[test]
    fn costs_are_sums_in_order(counts in prop::collection::vec(0..1_000_000_i32, ROWS), weight in 0.5..10.0_f64, domains in prop::collection::vec(0..FEW_DOMAINS as u32, ROWS)) {
        let counts = array(&counts);
        let domains = array(&domains.into_iter().map(DomainId).collect::<Vec<_>>());
        let costs: [f64; FEW_DOMAINS] = std::array::from_fn(|i| i as f64 * weight);
        for kernels in Kernels::all() {
            let mut scores = [7; ROWS];
            kernels.add_weights(&mut scores, &domains, &std::array::from_fn(|i| i as i32 - 100));
            let mut sums = [0.25; ROWS];
            kernels.add_counts(&mut sums, &counts, weight, 2.0);
            kernels.add_by_domain(&mut sums, &domains, &costs);
            for row in 0..ROWS {
                let expected = 0.25 + (f64::from(counts[row]) * weight + 2.0) + costs[domains[row].index()];
                prop_assert_eq!(sums[row].to_bits(), expected.to_bits(), "{:?}", kernels);
                prop_assert_eq!(scores[row], domains[row].index() as i32 - 93, "{:?}", kernels);
            }
        }
    }

    #[test]
    fn fit(alloc in allocatable(), used in used(), request in used(), pods in prop::collection::vec(0..4_i64, ROWS)) {
        let (alloc, used, pods) = (array(&alloc), array(&used), array(&pods));
        let allowed = [2; ROWS];
        let room = NativeColumns { milli_cpu: &alloc, memory: &used, ephemeral_storage: &alloc, pods: &allowed };
        let usage = NativeColumns { milli_cpu: &used, memory: &alloc, ephemeral_storage: &used, pods: &pods };
        for (milli_cpu, memory, ephemeral_storage) in
            [(request[0], request[1], request[2]), (0, 0, 0), (request[0], 0, 0), (0, 0, request[2])]
        {
            let input = FitInput { allocatable: room, used: usage, milli_cpu, memory, ephemeral_storage };
            let fits = |request: i64, free: i64| request == 0 || request <= free;
            let expected: RowSet = (0..ROWS).filter(|row| {
                let (a, u) = (alloc[*row], used[*row]);
                pods[*row] < 2 && fits(milli_cpu, a - u) && fits(memory, u - a) && fits(ephemeral_storage, a - u)
            }).collect();
            for kernels in Kernels::all() {
                prop_assert_eq!(kernels.fit(&input), expected, "{:?}", kernels);
                let one: RowSet = (0..ROWS).filter(|row| request[3] <= alloc[*row] - used[*row]).collect();
                prop_assert_eq!(kernels.fit_one(&alloc, &used, request[3]), one, "{:?}", kernels);
            }
        }
    }

    #[test]
    fn reduce_and_tie(
        values in prop::collection::vec(-3..4_i32, ROWS),
        hashes in prop::collection::vec(any::<u32>(), ROWS),
        rows in rows(),
        seed in any::<u64>(),
    ) {
        let (values, hashes) = (array(&values), array(&hashes));
        let key = TieKey::new(seed, "uid");
        let max = rows.iter().map(|row| values[row]).max().unwrap_or(i32::MIN);
        let min = rows.iter().map(|row| values[row]).min().unwrap_or(i32::MAX);
        let equal: RowSet = rows.iter().filter(|row| values[*row] == 2).collect();
        let highest = rows.iter().map(|row| key.of(hashes[row])).max().unwrap_or(0);
        for kernels in Kernels::all() {
            prop_assert_eq!(kernels.max_of(&values, &rows), max, "{:?}", kernels);
            prop_assert_eq!(kernels.min_of(&values, &rows), min, "{:?}", kernels);
            prop_assert_eq!(kernels.rows_equal(&values, &rows, 2), equal, "{:?}", kernels);
            for group in key.groups().chain([TieGroup::ALL]) {
                let of_group = rows.iter().map(|row| hashes[row]).filter(|hash| group.has(*hash));
                let highest = of_group.map(|hash| key.of(hash)).max().unwrap_or(0);
                let found = kernels.max_tie_key(&hashes, &rows, key, group);
                prop_assert_eq!(found, highest, "{:?}", kernels);
            }
            let winning: RowSet = rows.iter().filter(|row| key.of(hashes[*row]) == highest).collect();
            let few: Vec<u32> = rows.iter().map(|row| hashes[row]).collect();
            prop_assert_eq!(kernels.highest_tied(&few, key).0, highest, "{:?}", kernels);
            for (at, hash) in few.iter().enumerate() {
                prop_assert_eq!(key.hash_of(key.of(*hash)), *hash);
                prop_assert_eq!(kernels.position_of(&few, *hash, at), Some(at), "{:?}", kernels);
                let next = few[at + 1..].iter().position(|other| other == hash);
                let next = next.map(|next| at + 1 + next);
                prop_assert_eq!(kernels.position_of(&few, *hash, at + 1), next, "{:?}", kernels);
            }
            prop_assert_eq!(kernels.rows_of_tie_key(&hashes, &rows, key, highest), winning, "{:?}", kernels);
        }
    }
}

proptest! {
    /// More hashes than are compared at a time, some of them equal.
    #[test]
    fn the_highest_of_many_tied(
        hashes in prop::collection::vec(0..1_000_u32, 0..2_500),
        seed in any::<u64>(),
    ) {
        let key = TieKey::new(seed, "uid");
        let highest = hashes.iter().map(|hash| key.of(*hash)).max().unwrap_or(0);
        let holders = || {
            let all = hashes.iter().enumerate();
            all.filter(|(_, hash)| key.of(**hash) == highest).map(|(at, _)| at)
        };
        for kernels in Kernels::all() {
            let (found, range) = kernels.highest_tied(&hashes, key);
            prop_assert_eq!(found, highest, "{:?}", kernels);
            prop_assert!(range.end <= hashes.len(), "{:?}", kernels);
            prop_assert!(holders().all(|at| range.contains(&at)), "{:?}", kernels);
        }
    }
}

/// Seeded ties must not change between versions: placements are replayed.
#[test]
fn tie_keys_are_pinned() {
    assert_eq!(hash_name("node-0001"), 3_842_573_531);
    assert_eq!(TieKey::new(7, "uid-1").of(hash_name("node-0001")), 719_315_447);
    assert_eq!(TieGroup::of(hash_name("node-0001")).index(), 28);
    let groups: Vec<usize> = TieKey::new(7, "uid-1").groups().map(TieGroup::index).collect();
    assert_eq!(groups[..4], [6, 7, 4, 5]);
    let mut sorted = groups;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..N_GROUPS as usize).collect::<Vec<_>>(), "each group once");
}

/// Names that differ in a number, and uids, spread over the groups.
#[test]
fn groups_are_about_equal() {
    let mut n_names = [0; N_GROUPS as usize];
    let mut n_firsts = [0; N_GROUPS as usize];
    for i in 0..6_400 {
        n_names[TieGroup::of(hash_name(&format!("node-{i:05}"))).index()] += 1;
        let first = TieKey::new(0, &format!("uid-{i}")).groups().next().unwrap();
        n_firsts[first.index()] += 1;
    }
    for of_group in n_names.into_iter().chain(n_firsts) {
        assert!((140..=260).contains(&of_group), "{n_names:?} {n_firsts:?}");
    }
}
