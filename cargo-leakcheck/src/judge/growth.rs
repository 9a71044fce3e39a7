//! What a test's body adds each time it is run, in words, and whether that is too much.

use std::fmt;

use crate::model::{Budget, Growth};
use crate::snapshot::Loss;

/// How something grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Not, or it shrinks again.
    Not,
    /// By the same number of bytes in each iteration.
    Every(u64),
    /// In no more than half of the iterations, as a vector does that doubles its capacity.
    Steps {
        /// All of them together.
        bytes: u64,
        /// In how many iterations.
        steps: u64,
        /// Of how many.
        of: u64,
    },
    /// By so much to so much in each iteration.
    Between(u64, u64),
    /// Back and forth, and more forth: by so much an iteration.
    About(u64),
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Not => f.write_str("not"),
            Self::Every(bytes) => write!(f, "by {bytes} B per iteration"),
            Self::Steps { bytes, steps, of } => {
                write!(f, "in steps: {bytes} B in {steps} of {of} iterations")
            }
            Self::Between(low, high) => write!(f, "by {low} to {high} B per iteration"),
            Self::About(bytes) => write!(f, "by about {bytes} B per iteration"),
        }
    }
}

/// How the bytes that are alive after each iteration grow after the warm-up.
pub fn pattern(bytes: &[u64], warmup: u64) -> Pattern {
    pattern_of(&steps(bytes, warmup))
}

/// What each judged iteration adds.
fn steps(bytes: &[u64], warmup: u64) -> Vec<i128> {
    let warmup = usize::try_from(warmup).unwrap_or(usize::MAX).min(bytes.len());
    let mut before = warmup.checked_sub(1).map_or(0, |last| bytes[last]);
    let step = |after: &u64| i128::from(*after) - i128::from(std::mem::replace(&mut before, *after));
    bytes[warmup..].iter().map(step).collect()
}

fn pattern_of(steps: &[i128]) -> Pattern {
    let (low, high) = (steps.iter().min().copied().unwrap_or(0), steps.iter().max().copied().unwrap_or(0));
    if low < 0 {
        return rise(steps).map_or(Pattern::Not, |(bytes, of)| Pattern::About(number(bytes).div_ceil(of)));
    }
    let grows = steps.iter().filter(|step| **step > 0).count();
    match grows {
        0 => Pattern::Not,
        _ if low == high => Pattern::Every(number(low)),
        _ if grows * 2 <= steps.len() => {
            Pattern::Steps { bytes: number(steps.iter().sum()), steps: grows as u64, of: steps.len() as u64 }
        }
        _ => Pattern::Between(number(low), number(high)),
    }
}

/// By how many bytes something rises that goes back and forth, in how many iterations: its second half has to lie higher than its
/// first one at the bottom and at the top. A buffer that is emptied now and then does not rise, wherever the last iteration
/// finds it.
fn rise(steps: &[i128]) -> Option<(i128, u64)> {
    let mut level = 0;
    let levels = std::iter::once(0).chain(steps.iter().map(|step| {
        level += step;
        level
    }));
    let levels: Vec<i128> = levels.collect();
    let half = levels.len() / 2;
    let (first, second) = (&levels[..half], &levels[levels.len() - half..]);
    let low = second.iter().min()? - first.iter().min()?;
    let high = second.iter().max()? - first.iter().max()?;
    let rise = low.min(high);
    (rise > 0).then_some((rise, (levels.len() - half) as u64))
}

fn number(bytes: i128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// How a test grows, in words: `by 24 B per iteration`. None where it does not.
pub fn text<S>(growth: &Growth<S>) -> Option<String> {
    let (bytes, warmup) = (growth.bytes(), growth.warmup);
    let all = pattern(&bytes, warmup);
    if all == Pattern::Not {
        return None;
    }
    // What holds a box more each time is a vector as often as not.
    let every = growth.grown.iter().map(|grown| match pattern(&grown.bytes, warmup) {
        Pattern::Every(bytes) => bytes,
        _ => 0,
    });
    let every: u64 = every.fold(0, u64::saturating_add);
    let rest: Vec<i128> = steps(&bytes, warmup).iter().map(|step| step - i128::from(every)).collect();
    match pattern_of(&rest) {
        Pattern::Steps { bytes, steps, of } if every > 0 => {
            Some(format!("by {every} B per iteration, and in steps: {bytes} B in {steps} of {of} iterations"))
        }
        _ => Some(all.to_string()),
    }
}

/// The reason if each judged iteration adds more than the limit, on average.
pub fn exceeded<S>(budget: &Budget, growth: &Growth<S>) -> Option<String> {
    let steps = steps(&growth.bytes(), growth.warmup);
    let (bytes, of) = match pattern_of(&steps) {
        Pattern::Not => return None,
        Pattern::About(_) => rise(&steps)?,
        _ => (steps.iter().sum(), steps.len() as u64),
    };
    let limit = budget.bytes_per_iteration.unwrap_or(0);
    let over = bytes > i128::from(limit) * i128::from(of);
    over.then(|| Some(format!("grows {} (budget {limit} B)", text(growth)?)))?
}

/// Bytes that the judged iterations have added at one place, and how many iterations these are.
pub fn added(bytes: &[u64], warmup: u64) -> (u64, u64) {
    let steps = steps(bytes, warmup);
    (number(steps.iter().sum::<i128>().max(0)), steps.len() as u64)
}

/// What is missing for a verdict on a test that asks for iterations of its own.
pub(super) fn loss<S>(budget: &Budget, growth: Option<&Growth<S>>) -> Option<Loss> {
    budget.iterations.filter(|total| *total > 1)?;
    let reason = match growth {
        Some(growth) if growth.is_whole() => return None,
        Some(growth) => growth.ended.clone(),
        None => None,
    };
    Some(Loss::Growth { reason: reason.unwrap_or_else(|| "it was not seen".into()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Grown, Measure};

    /// The capacities in bytes of a vector of 8-byte elements to which each iteration adds one (4, 8, 16, 32 elements).
    fn vector(iterations: u64) -> Vec<u64> {
        (1..=iterations).map(|length: u64| 8 * length.next_power_of_two().max(4)).collect()
    }

    fn growth(bytes: &[u64], warmup: u64, grown: Vec<Vec<u64>>) -> Growth<()> {
        Growth {
            iterations: bytes.len() as u64,
            warmup,
            alive: bytes.iter().map(|bytes| Measure { bytes: *bytes, blocks: 1 }).collect(),
            grown: grown.into_iter().map(|bytes| Grown { bytes, stack: None }).collect(),
            ..Growth::default()
        }
    }

    fn reason(bytes: &[u64], warmup: u64, limit: Option<u64>) -> Option<String> {
        exceeded(
            &Budget { bytes_per_iteration: limit, ..Budget::default() },
            &growth(bytes, warmup, Vec::new()),
        )
    }

    #[test]
    fn growth_has_a_word_for_each_way() {
        assert_eq!(
            pattern(&[100, 200, 300, 300, 300, 300], 3),
            Pattern::Not,
            "a cache that is filled in the warm-up"
        );
        assert_eq!(pattern(&[24, 48, 72, 96, 120], 3), Pattern::Every(24));
        assert_eq!(pattern(&[24, 48], 0), Pattern::Every(24));
        // 32 bytes for 4 elements; 64 at the 5th, 128 at the 9th, 256 at the 17th.
        let steps = Pattern::Steps { bytes: 256 - 32, steps: 3, of: 17 };
        assert_eq!(pattern(&vector(20), 3), steps);
        assert_eq!(steps.to_string(), "in steps: 224 B in 3 of 17 iterations");
        assert_eq!(pattern(&[0, 20, 60, 90], 1), Pattern::Between(20, 40));
        assert_eq!(pattern(&[5, 5, 5], 1), Pattern::Not);
        assert_eq!(pattern(&[], 3), Pattern::Not);
        assert_eq!(pattern(&[u64::MAX, 0], 1), Pattern::Not);
    }

    #[test]
    fn what_goes_back_and_forth_grows_where_bottom_and_top_rise() {
        // A buffer of 24 bytes more each time, emptied every fourth time.
        let buffer: Vec<u64> = (1..=20).map(|number| 24 * (number % 4)).collect();
        assert_eq!(pattern(&buffer, 3), Pattern::Not);
        // The same with 10 bytes that stay each time: the last top and bottom are 8 iterations behind those of the first half, and the
        // halves 9 apart: 80 B in 9 iterations.
        let leaking: Vec<u64> = buffer.iter().zip(1..).map(|(bytes, number)| bytes + 10 * number).collect();
        assert_eq!(pattern(&leaking, 3), Pattern::About(9));
        assert_eq!(pattern(&[50, 10, 30, 20, 40, 10, 30], 1), Pattern::Not, "a last value that is replaced");
    }

    #[test]
    fn the_limit_is_an_average_and_inclusive() {
        let boxes: Vec<u64> = (1..=20).map(|number| 24 * number).collect();
        assert_eq!(reason(&boxes, 3, None).as_deref(), Some("grows by 24 B per iteration (budget 0 B)"));
        assert_eq!(reason(&boxes, 3, Some(23)).as_deref(), Some("grows by 24 B per iteration (budget 23 B)"));
        assert_eq!(reason(&boxes, 3, Some(24)), None);
        // 224 bytes in 17 iterations are more than 13 a piece, and less than 14.
        let steps = "grows in steps: 224 B in 3 of 17 iterations (budget 13 B)";
        assert_eq!(reason(&vector(20), 3, Some(13)).as_deref(), Some(steps));
        assert_eq!(reason(&vector(20), 3, Some(14)), None);
        assert_eq!(reason(&[100, 100, 100], 1, None), None);
        assert_eq!(reason(&boxes, 3, Some(u64::MAX)), None);
    }

    #[test]
    fn a_vector_of_boxes_grows_both_ways() {
        let boxes: Vec<u64> = (1..=20).map(|number| 24 * number).collect();
        let both: Vec<u64> = boxes.iter().zip(vector(20)).map(|(boxes, vector)| boxes + vector).collect();
        let growth = growth(&both, 3, vec![boxes, vector(20)]);
        let expected = "by 24 B per iteration, and in steps: 224 B in 3 of 17 iterations";
        assert_eq!(text(&growth).as_deref(), Some(expected));
    }

    #[test]
    fn only_a_test_that_asks_for_iterations_is_incomplete_without_them() {
        let ask = Budget { iterations: Some(20), ..Budget::default() };
        let whole = growth(&[1, 1], 1, Vec::new());
        let ended = Growth { ended: Some("iteration 2 has failed".into()), ..whole.clone() };
        let reason =
            |budget: &Budget, growth: Option<&Growth<()>>| loss(budget, growth).map(|loss| loss.to_string());
        let text = "its body was not run as often as it is to be: iteration 2 has failed";
        assert_eq!(reason(&ask, Some(&ended)).as_deref(), Some(text));
        assert!(reason(&ask, None).is_some());
        assert_eq!(reason(&ask, Some(&whole)), None);
        let (none, once) = (Budget::default(), Budget { iterations: Some(1), ..Budget::default() });
        assert_eq!(reason(&none, Some(&ended)), None);
        assert_eq!(reason(&once, None), None);
    }
}
