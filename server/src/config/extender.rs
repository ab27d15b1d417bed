//! The section `extender`: options of kube-scheduler's extender calls.

use berth_engine::{Plugin, PolicySpec};

use crate::document::decode::{self, Cursor};
use crate::extender::{DEFAULT_MAX_BODY_BYTES, ExtenderOptions};

/// Decodes the section; errors are reported to the cursor's reader.
pub(super) fn decode(section: Cursor<'_>) -> Option<ExtenderOptions> {
    let known = PolicySpec::default();
    let scores: Vec<Plugin> = known.score.iter().map(|(plugin, _)| *plugin).collect();
    section.object(|fields| ExtenderOptions {
        profile: fields.take("profile", decode::text),
        filter_plugins: fields
            .take("filterPlugins", |list| list.list(|item| plugin(item, &known.filter, "filter"))),
        score_plugins: fields
            .take("scorePlugins", |list| list.list(|item| plugin(item, &scores, "score"))),
        max_body_bytes: fields.take("maxBodyBytes", bytes).unwrap_or(DEFAULT_MAX_BODY_BYTES),
        bind: fields.take("bind", decode::boolean).unwrap_or(false),
    })
}

fn plugin(item: Cursor<'_>, known: &[Plugin], point: &str) -> Option<Plugin> {
    let name = decode::text(item)?;
    let found = Plugin::from_name(&name).filter(|plugin| known.contains(plugin));
    if found.is_none() {
        let names: Vec<&str> = known.iter().map(|plugin| plugin.name()).collect();
        item.report(format!("`{name}` is no {point} plugin; there are {}", names.join(", ")));
    }
    found
}

fn bytes(value: Cursor<'_>) -> Option<usize> {
    let n = decode::integer::<usize>(value)?;
    if n == 0 {
        value.report("must be greater than 0");
        return None;
    }
    Some(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::decode::read_text;

    fn read(text: &str) -> Result<ExtenderOptions, Vec<String>> {
        read_text(text, decode)
    }

    #[test]
    fn every_field_is_read_and_none_is_needed() {
        assert_eq!(read("{}"), Ok(ExtenderOptions::default()));
        let written = read(concat!(
            "profile: gpu\nfilterPlugins: [NodeName, NodeAffinity]\n",
            "scorePlugins: []\nmaxBodyBytes: 10\nbind: true\n",
        ));
        let expected = ExtenderOptions {
            profile: Some("gpu".to_owned()),
            filter_plugins: Some(vec![Plugin::NodeName, Plugin::NodeAffinity]),
            score_plugins: Some(Vec::new()),
            max_body_bytes: 10,
            bind: true,
        };
        assert_eq!(written, Ok(expected));
    }

    #[test]
    fn mistakes_name_line_and_field() {
        let problems = read(concat!(
            "profil: gpu\nfilterPlugins: [ImageLocality, nodeName]\nscorePlugins: [NodeName]\n",
            "maxBodyBytes: 0\nprofile: 7\n",
        ))
        .unwrap_err();
        let expected = [
            "line 5: `profile`: expected a string, got an integer",
            "line 2: `filterPlugins[0]`: `ImageLocality` is no filter plugin; there are NodeUnschedulable, ",
            "line 2: `filterPlugins[1]`: `nodeName` is no filter plugin; there are ",
            "line 3: `scorePlugins[0]`: `NodeName` is no score plugin; there are TaintToleration, ",
            "line 4: `maxBodyBytes`: must be greater than 0",
            "line 1: `profil`: unknown field",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
}
