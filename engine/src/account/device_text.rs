//! The words for devices: what a request asks for, and how many devices are left for it.

use super::comparison::{DeviceAccount, DeviceHolder};

impl DeviceAccount {
    /// What is asked for: `claim gpus, request gpu: 4 of class gpu`.
    pub(super) fn subject(&self) -> String {
        let asked = self.asked.map_or_else(|| "all".to_owned(), |asked| asked.to_string());
        let whose = match &*self.claim {
            "" => "extended resources".to_owned(),
            claim => format!("claim {claim}"),
        };
        format!("{whose}, request {}: {asked} of class {}", self.request, self.class)
    }

    /// What there is, down to the step that leaves too few: `8 of the class, 4 selected, 2 free`.
    pub(super) fn found(&self) -> String {
        if self.n_of_class == 0 {
            return match self.n_seen {
                0 => "no device in sight".to_owned(),
                n_seen => format!("none of {n_seen} in sight is of the class"),
            };
        }
        let mut steps = vec![format!("{} of the class", self.n_of_class)];
        let selected = match &self.selector {
            Some(selector) => format!("selected by `{selector}`"),
            None => "selected".to_owned(),
        };
        let counts = [
            (self.n_selected, selected.as_str()),
            (self.n_with_capacity, "with the capacity"),
            (self.n_tolerated, "with tolerated taints"),
            (self.n_drawable, "with counters left"),
            (self.n_left, "free"),
        ];
        let mut before = self.n_of_class;
        for (n, what) in counts {
            if n < before {
                steps.push(if n == 0 { format!("none {what}") } else { format!("{n} {what}") });
            }
            before = n;
        }
        if before == self.n_of_class {
            steps.push("all free".to_owned());
        }
        let text = steps.join(", ");
        if self.holders.is_empty() { text } else { format!("{text}; {}", self.holders_text()) }
    }

    fn holders_text(&self) -> String {
        let held = |holder: &DeviceHolder| match &*holder.claim {
            "" => format!("{} is held", holder.device),
            claim => format!("{} is held by {claim}", holder.device),
        };
        self.holders.iter().map(held).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(counts: [i64; 7]) -> DeviceAccount {
        let [n_seen, n_of_class, n_selected, n_with_capacity, n_tolerated, n_drawable, n_left] =
            counts;
        DeviceAccount {
            claim: "c".into(),
            request: "r/big".into(),
            class: "gpu".into(),
            asked: Some(4),
            n_seen,
            n_of_class,
            n_selected,
            n_with_capacity,
            n_tolerated,
            n_drawable,
            n_left,
            selector: None,
            holders: Vec::new(),
        }
    }

    #[test]
    fn every_step_that_loses_devices_is_named() {
        let check = |counts, expected: &str| assert_eq!(account(counts).found(), expected);
        check([0; 7], "no device in sight");
        check([8, 0, 0, 0, 0, 0, 0], "none of 8 in sight is of the class");
        check([8, 8, 8, 8, 8, 8, 8], "8 of the class, all free");
        check([8, 8, 4, 4, 4, 4, 1], "8 of the class, 4 selected, 1 free");
        let all = "8 of the class, 7 selected, 6 with the capacity, 5 with tolerated taints, 4 with counters left, 3 free";
        check([9, 8, 7, 6, 5, 4, 3], all);
        check([8, 8, 0, 0, 0, 0, 0], "8 of the class, none selected");
        let mut held = account([1, 1, 1, 1, 1, 1, 0]);
        held.holders = vec![DeviceHolder { device: "gpu-0".into(), claim: "ns/other".into() }];
        assert_eq!(held.found(), "1 of the class, none free; gpu-0 is held by ns/other");
        assert_eq!(held.subject(), "claim c, request r/big: 4 of class gpu");
        (held.claim, held.asked) = ("".into(), None);
        assert_eq!(held.subject(), "extended resources, request r/big: all of class gpu");
    }
}
