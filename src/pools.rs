//! `tollgate pools`: shows how it stands with the pools of a running server, once or every second.

use crate::{
    arguments::Pools,
    ask::{self, Format, NotShown, Question},
    watch,
};
use http::Method;

/// Shows them.
pub(crate) async fn show(arguments: &Pools) -> Result<(), NotShown> {
    let Pools { admin, watch, json } = arguments;
    let question = Question {
        method: Method::GET,
        path: "/pools".to_owned(),
        format: if *json { Format::Json } else { Format::Text },
        body: String::new(),
    };
    if *watch {
        watch::show(admin, "The pools", &question).await
    } else {
        ask::show(admin, &question).await
    }
}
