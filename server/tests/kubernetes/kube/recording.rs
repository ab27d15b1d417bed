//! Recorded exchanges with a real API server, from `data/apiserver` of the shared corpus.

use berth_testing::recorded;
use serde_json::Value;

use crate::kube::replay::{Ending, Response};

/// Returns the recording of this name, unless it is missing.
pub(crate) fn load(name: &str) -> Option<Recording> {
    let text = recorded::read(&format!("data/apiserver/{name}.json"))?;
    let Value::Object(mut recording) = serde_json::from_str(&text).unwrap() else {
        panic!("{name} is no recording")
    };
    let Some(Value::Array(exchanges)) = recording.remove("exchanges") else {
        panic!("{name} has no exchanges")
    };
    Some(Recording { exchanges })
}

pub(crate) struct Recording {
    pub(crate) exchanges: Vec<Value>,
}

impl Recording {
    /// Returns the response of the exchange at `index`.
    pub(crate) fn answer(&self, index: usize) -> Response {
        let response = &self.exchanges[index]["response"];
        let headers = response["headers"].as_object().unwrap();
        let kept = ["Content-Type", "Retry-After"];
        let headers = kept.into_iter().filter_map(|name| {
            Some((name.to_owned(), headers.get(name)?.as_str().unwrap().to_owned()))
        });
        let chunks = match response["chunks"].as_array() {
            Some(chunks) => {
                chunks.iter().map(|chunk| chunk["data"].as_str().unwrap().to_owned()).collect()
            }
            None => vec![response["body"].as_str().unwrap_or_default().to_owned()],
        };
        let how = response["ended"]["how"].as_str().unwrap_or_default();
        Response {
            status: u16::try_from(response["status"].as_u64().unwrap()).unwrap(),
            headers: headers.collect(),
            chunks,
            ending: if how.contains("without") { Ending::Cut } else { Ending::Proper },
        }
    }

    /// The text of a response, chunks joined.
    pub(crate) fn text(&self, index: usize) -> String {
        self.answer(index).chunks.concat()
    }

    /// The lines of a stream as JSON.
    pub(crate) fn events(&self, index: usize) -> Vec<Value> {
        self.text(index).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn target(&self, index: usize) -> &str {
        self.exchanges[index]["request"]["target"].as_str().unwrap()
    }
}
