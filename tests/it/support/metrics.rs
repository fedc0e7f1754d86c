//! What a server tells Prometheus.

use super::{Response, get};
use std::{collections::BTreeMap, net::SocketAddr};

/// All series of one scrape.
pub(crate) struct Metrics {
    pub(crate) text: String,
}

/// A series' labels.
type Labels<'t> = BTreeMap<&'t str, &'t str>;

impl Metrics {
    /// What is told at this door.
    pub(crate) async fn of(door: SocketAddr) -> Self {
        let Response { status, body, .. } = get(door, "/metrics", &[]).await.unwrap();
        assert_eq!(status, 200, "{body}");
        Self { text: body }
    }

    /// The series of a metric, each with its value. No label here holds a quote or a comma.
    pub(crate) fn series(&self, name: &str) -> Vec<(Labels<'_>, f64)> {
        let lines = self.text.lines().filter_map(|line| line.strip_prefix(name));
        let series = lines.filter_map(|line| {
            let (labels, value) = line.rsplit_once(' ')?;
            let labels = match labels.strip_prefix('{') {
                Some(labels) => labels.strip_suffix('}')?,
                None if labels.is_empty() => "",
                // Another metric, whose name begins as this one's.
                None => return None,
            };
            let pairs = labels.split("\",").filter(|pair| !pair.is_empty());
            let pairs = pairs.map(|pair| pair.trim_end_matches('"').split_once("=\"").unwrap());
            Some((pairs.collect(), value.parse().unwrap()))
        });
        series.collect()
    }

    /// The sum of the series of a metric that have all of these labels; `None` where there is no such series.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let series = self.series(name);
        let has_all =
            |it: &Labels<'_>| labels.iter().all(|(label, value)| it.get(label) == Some(value));
        let values: Vec<f64> =
            series.iter().filter(|(it, _)| has_all(it)).map(|(_, value)| *value).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }
}
