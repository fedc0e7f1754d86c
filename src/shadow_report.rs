//! `tollgate shadow-report`: shows what rules in shadow would have refused, once or every second.

use crate::{
    arguments::ShadowReport,
    ask::{self, Format, NotShown, Question},
    watch,
};
use http::Method;

/// Shows it.
pub(crate) async fn show(arguments: &ShadowReport) -> Result<(), NotShown> {
    let ShadowReport { rule, window, top, watch, asking } = arguments;
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("top", &top.to_string());
    if let Some(rule) = rule {
        query.append_pair("rule", rule);
    }
    if let Some(window) = window {
        query.append_pair("window", window.name());
    }
    let question = Question {
        method: Method::GET,
        path: format!("/shadow-report?{}", query.finish()),
        format: if asking.json { Format::Json } else { Format::Text },
        body: String::new(),
    };
    if *watch {
        watch::show(&asking.admin, "The dark launches", &question).await
    } else {
        ask::show(&asking.admin, &question).await
    }
}
