//! Expiry: when the served certificate has to be replaced, and how often the log says so.

/// Remaining validity below which the log warns.
const SOON_SECONDS: i64 = 7 * DAY_SECONDS;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// How soon a certificate expires.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// The certificate is valid for more than seven days.
    Distant,
    /// The certificate is valid for this many whole hours, and for not more than seven days.
    Soon {
        /// Hours, 0 to 168.
        hours: i64,
    },
    /// The certificate is not valid any more: clients refuse it.
    Over,
}

impl Expiry {
    /// Expiry of a certificate whose last second is `not_after`, at `now`, both in Unix time.
    pub(super) fn at(now: i64, not_after: i64) -> Expiry {
        match not_after.saturating_sub(now) {
            ..0 => Expiry::Over,
            left if left <= SOON_SECONDS => Expiry::Soon { hours: left / 3_600 },
            _ => Expiry::Distant,
        }
    }

    fn stage(self) -> u8 {
        match self {
            Expiry::Distant => 0,
            Expiry::Soon { .. } => 1,
            Expiry::Over => 2,
        }
    }
}

/// Remembers the warnings: one for each certificate and stage, and again every day.
#[derive(Debug, Default)]
pub(super) struct Reminder {
    said: Option<Said>,
}

#[derive(Debug)]
struct Said {
    not_after: i64,
    stage: u8,
    at: i64,
}

impl Reminder {
    /// The warning that is due now, if any.
    pub(super) fn due(&mut self, now: i64, not_after: i64) -> Option<Expiry> {
        let expiry = Expiry::at(now, not_after);
        if expiry == Expiry::Distant {
            self.said = None;
            return None;
        }
        let stage = expiry.stage();
        let is_said = self.said.as_ref().is_some_and(|said| {
            // A clock that was set back starts the day anew.
            let age = now.saturating_sub(said.at);
            (said.not_after, said.stage) == (not_after, stage) && (0..DAY_SECONDS).contains(&age)
        });
        if is_said {
            return None;
        }
        self.said = Some(Said { not_after, stage, at: now });
        Some(expiry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_the_last_valid_second() {
        let not_after = 1_000_000;
        for (now, expected) in [
            (not_after - SOON_SECONDS - 1, Expiry::Distant),
            (not_after - SOON_SECONDS, Expiry::Soon { hours: 168 }),
            (not_after, Expiry::Soon { hours: 0 }),
            (not_after + 1, Expiry::Over),
            (i64::MAX, Expiry::Over),
        ] {
            assert_eq!(Expiry::at(now, not_after), expected, "{now}");
        }
    }

    #[test]
    fn a_reminder_is_due_once_a_day_and_at_each_stage() {
        let mut reminder = Reminder::default();
        let not_after = 10 * DAY_SECONDS;
        let mut said = Vec::new();
        for hour in 0..24 * 12 {
            if let Some(expiry) = reminder.due(hour * 3_600, not_after) {
                said.push((hour, expiry.stage()));
            }
        }
        let soon: Vec<_> = (3..=9).map(|day| (day * 24, 1)).collect();
        let expected: Vec<_> = soon.into_iter().chain([(240, 1), (241, 2), (265, 2)]).collect();
        assert_eq!(said, expected);
        // Another certificate that also expires soon.
        assert!(reminder.due(12 * DAY_SECONDS, 13 * DAY_SECONDS).is_some());
        assert!(reminder.due(12 * DAY_SECONDS, 13 * DAY_SECONDS).is_none());
        assert!(reminder.due(12 * DAY_SECONDS, 100 * DAY_SECONDS).is_none());
    }
}
