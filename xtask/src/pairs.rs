//! Two programs doing the same work, turn by turn, and what their costs say.

use crate::Result;
use crate::json::Json;
use crate::measure::{self, Cost};
use crate::table::{mebibytes, seconds};

/// The heads of [`Pairs::cells`].
pub(crate) const HEADER: [&str; 9] =
    ["what", "objects", "git", "ours", "ratio", "spread", "goal", "git peak", "ours peak"];

/// What stands below a table of them.
pub(crate) const LEGEND: &str =
    "ratio: git / ours, median of pairs; spread: smallest and largest pair; peak: largest resident memory.";

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Git,
    Ours,
}

/// The costs of both.
pub(crate) struct Pairs {
    pub(crate) ours: Vec<Cost>,
    pub(crate) git: Vec<Cost>,
    /// How many objects the answer has.
    pub(crate) objects: usize,
}

impl Pairs {
    /// Lets both take turns.
    pub(crate) fn measure(runs: usize, objects: usize, mut once: impl FnMut(Who) -> Result<Cost>) -> Result<Pairs> {
        let mut pairs = Pairs { ours: Vec::new(), git: Vec::new(), objects };
        for run in 0..runs {
            // Who goes first changes, so that what the other leaves in caches favours nobody.
            if run % 2 == 0 {
                pairs.git.push(once(Who::Git)?);
            }
            pairs.ours.push(once(Who::Ours)?);
            if run % 2 == 1 {
                pairs.git.push(once(Who::Git)?);
            }
        }
        Ok(pairs)
    }

    fn ratios(&self) -> impl Iterator<Item = f64> {
        self.git.iter().zip(&self.ours).map(|(git, ours)| git.wall / ours.wall)
    }

    /// One line.
    pub(crate) fn summary(&self) -> String {
        let ratio = measure::median(self.ratios());
        format!("{} ours, {} git, {ratio:.2}x", seconds(wall(&self.ours)), seconds(wall(&self.git)))
    }

    /// A row of a table.
    pub(crate) fn cells(&self, name: &str, goal: f64) -> Vec<String> {
        let (low, high) = measure::spread(self.ratios());
        vec![
            name.to_owned(),
            self.objects.to_string(),
            seconds(wall(&self.git)),
            seconds(wall(&self.ours)),
            format!("{:.2}x", measure::median(self.ratios())),
            format!("{low:.2}-{high:.2}"),
            format!("{goal:.1}x"),
            mebibytes(peak(&self.git)),
            mebibytes(peak(&self.ours)),
        ]
    }

    /// What did not go as it should: too slow, or more memory than git takes.
    pub(crate) fn losses(&self, goal: f64) -> Vec<String> {
        let ratio = measure::median(self.ratios());
        let mut losses = Vec::new();
        if ratio < 1.0 {
            losses.push(format!("slower than git ({ratio:.2}x)"));
        } else if ratio < goal {
            losses.push(format!("{ratio:.2}x is below the goal of {goal:.1}x"));
        }
        // A hundredth is the difference between two runs of the same program.
        if self.peak() > peak(&self.git) + peak(&self.git) / 100 {
            let (ours, git) = (mebibytes(self.peak()), mebibytes(peak(&self.git)));
            losses.push(format!("more memory than git ({ours} against {git})"));
        }
        losses
    }

    /// Our largest resident set, in KiB.
    pub(crate) fn peak(&self) -> u64 {
        peak(&self.ours)
    }

    /// All figures.
    pub(crate) fn json(&self, goal: f64) -> Vec<(&'static str, Json)> {
        let (low, high) = measure::spread(self.ratios());
        vec![
            ("objects", Json::Number(self.objects as f64)),
            ("goal", Json::Number(goal)),
            ("ratio", Json::Number(measure::median(self.ratios()))),
            ("ratio_low", Json::Number(low)),
            ("ratio_high", Json::Number(high)),
            ("git_seconds", Json::numbers(self.git.iter().map(|cost| cost.wall))),
            ("ours_seconds", Json::numbers(self.ours.iter().map(|cost| cost.wall))),
            ("git_cpu_seconds", Json::numbers(self.git.iter().map(|cost| cost.cpu))),
            ("ours_cpu_seconds", Json::numbers(self.ours.iter().map(|cost| cost.cpu))),
            ("git_peak_kib", Json::Number(peak(&self.git) as f64)),
            ("ours_peak_kib", Json::Number(peak(&self.ours) as f64)),
        ]
    }
}

fn wall(costs: &[Cost]) -> f64 {
    measure::median(costs.iter().map(|cost| cost.wall))
}

fn peak(costs: &[Cost]) -> u64 {
    costs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(wall: f64, peak_kib: u64) -> Cost {
        Cost { wall, cpu: wall, peak_kib }
    }

    #[test]
    fn losses_are_told() {
        let result = |ours: f64, peak| Pairs { ours: vec![cost(ours, peak)], git: vec![cost(4.0, 1000)], objects: 1 };
        assert!(result(1.0, 1000).losses(4.0).is_empty());
        assert_eq!(result(2.0, 1000).losses(4.0).len(), 1);
        assert_eq!(result(8.0, 2000).losses(4.0).len(), 2);
    }

    #[test]
    fn ratios_are_of_pairs() {
        let mut times = [2.0, 1.0, 2.0, 8.0, 3.0, 1.0].into_iter();
        let mut turns = Vec::new();
        let result = Pairs::measure(3, 1, |who| {
            turns.push(who);
            Ok(cost(times.next().unwrap(), 1))
        })
        .unwrap();
        assert_eq!(turns, [Who::Git, Who::Ours, Who::Ours, Who::Git, Who::Git, Who::Ours]);
        assert_eq!(result.ratios().collect::<Vec<_>>(), [2.0, 4.0, 3.0]);
        assert_eq!(measure::median(result.ratios()), 3.0);
    }
}
