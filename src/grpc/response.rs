//! Domain to proto.

use super::{
    headers::{self, Headers},
    proto::envoy::service::ratelimit::v3::{
        RateLimitResponse,
        rate_limit_response::{
            Code as WireCode, DescriptorStatus, RateLimit, rate_limit::Unit as WireUnit,
        },
    },
};
use crate::{
    decision::{Code, Decision, Lease, ShownLimit, Status},
    request::{Descriptor, Override, Request},
    unit::Unit,
};
use prost_types::{ListValue, Struct, Value, value::Kind};
use serde_json::Value as Json;
use std::time::Duration;

/// What says in the dynamic metadata that an answer was given without the store.
const DEGRADED: &str = "degraded";

/// What says in the dynamic metadata after how many seconds the request is to go on.
const DELAY: &str = "delay";

/// Writes an answer for the wire. `headers` are added; with `echoes` the dynamic metadata repeat the request
/// beside the rules' own.
pub(super) fn write_response(
    request: &Request,
    decision: Decision,
    headers: &Headers,
    echoes: bool,
) -> RateLimitResponse {
    let mut to_add = headers::rate_limit(&decision, &headers.rate_limit);
    let refused = decision.refused;
    if let Some(seconds) = refused.as_ref().and_then(|refused| refused.retry_after_s) {
        to_add.push(headers::header("retry-after", seconds));
    }
    let mut metadata = echoes.then(|| echo(request, decision.metadata));
    if decision.degraded {
        let fields = &mut metadata.get_or_insert_default().fields;
        fields.insert(DEGRADED.to_owned(), value(Kind::BoolValue(true)));
        to_add.extend(headers.degraded.iter().map(|name| headers::header(name, true)));
    }
    if decision.delay_us > 0 {
        // Whatever else is switched on: it is part of the decision.
        let seconds = Duration::from_micros(decision.delay_us).as_secs_f64().to_string();
        let fields = &mut metadata.get_or_insert_default().fields;
        fields.insert(DELAY.to_owned(), value(Kind::StringValue(seconds)));
    }
    let mut for_upstream = Vec::new();
    if let Some(Lease { id, name, key, headers, .. }) = decision.lease {
        // Whatever else is switched on: it is how Envoy knows what to release.
        metadata.get_or_insert_default().fields.insert(key, text(&name));
        for_upstream.extend(headers.iter().map(|name| headers::header(name, id.as_str())));
    }
    RateLimitResponse {
        overall_code: write_code(decision.code).into(),
        statuses: decision.statuses.into_iter().map(write_status).collect(),
        response_headers_to_add: to_add,
        request_headers_to_add: for_upstream,
        raw_body: refused.map(|refused| refused.message.into()).unwrap_or_default(),
        dynamic_metadata: metadata,
    }
}

/// So many microseconds.
pub(super) fn write_duration(micros: u64) -> prost_types::Duration {
    let seconds = i64::try_from(micros / 1_000_000).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: (micros % 1_000_000) as i32 * 1000 }
}

const fn write_code(code: Code) -> WireCode {
    match code {
        Code::Ok => WireCode::Ok,
        Code::OverLimit => WireCode::OverLimit,
    }
}

pub(super) fn write_status(status: Status) -> DescriptorStatus {
    DescriptorStatus {
        code: write_code(status.code).into(),
        current_limit: status.limit.map(write_limit),
        limit_remaining: status.remaining,
        duration_until_reset: status
            .reset_s
            .map(|seconds| write_duration(seconds.saturating_mul(1_000_000))),
    }
}

fn write_limit(limit: ShownLimit) -> RateLimit {
    RateLimit {
        name: limit.name.unwrap_or_default(),
        requests_per_unit: limit.requests_per_unit,
        unit: limit.limit.unit().map_or(WireUnit::Unknown, write_unit).into(),
    }
}

const fn write_unit(unit: Unit) -> WireUnit {
    match unit {
        Unit::Second => WireUnit::Second,
        Unit::Minute => WireUnit::Minute,
        Unit::Hour => WireUnit::Hour,
        Unit::Day => WireUnit::Day,
        Unit::Week => WireUnit::Week,
        Unit::Month => WireUnit::Month,
        Unit::Year => WireUnit::Year,
    }
}

/// What other filters read: the request, and what the rules say of it.
fn echo(request: &Request, metadata: serde_json::Map<String, Json>) -> Struct {
    let descriptors = request.descriptors.iter().map(echo_descriptor).collect();
    let mut fields = vec![("domain", text(&request.domain)), ("descriptors", list(descriptors))];
    if request.hits_addend > 0 {
        fields.push(("hitsAddend", number(request.hits_addend.into())));
    }
    if !metadata.is_empty() {
        fields.push(("metadata", from_json(Json::Object(metadata))));
    }
    structure(fields)
}

fn echo_descriptor(descriptor: &Descriptor) -> Value {
    let entries = descriptor
        .entries
        .iter()
        .map(|entry| text(&[&entry.key[..], b"=", &entry.value[..]].concat()));
    let mut fields = vec![("entries", list(entries.collect()))];
    if let Some(Override { requests_per_unit, unit }) = descriptor.limit {
        let limit = structure(vec![
            ("requestsPerUnit", number(requests_per_unit.into())),
            ("unit", text(unit.name().to_ascii_uppercase().as_bytes())),
        ]);
        fields.push(("limit", value(Kind::StructValue(limit))));
    }
    if let Some(hits) = descriptor.hits_addend {
        #[expect(clippy::cast_precision_loss, reason = "JSON knows no other number")]
        fields.push(("hitsAddend", number(hits as f64)));
    }
    if descriptor.is_negative_hits {
        fields.push(("isNegativeHits", value(Kind::BoolValue(true))));
    }
    value(Kind::StructValue(structure(fields)))
}

fn from_json(json: Json) -> Value {
    value(match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(boolean) => Kind::BoolValue(boolean),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text),
        Json::Array(items) => return list(items.into_iter().map(from_json).collect()),
        Json::Object(fields) => Kind::StructValue(Struct {
            fields: fields.into_iter().map(|(name, json)| (name, from_json(json))).collect(),
        }),
    })
}

fn structure(fields: Vec<(&str, Value)>) -> Struct {
    Struct { fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
}

/// Text as it came; what is no text is shown with replacement characters.
fn text(bytes: &[u8]) -> Value {
    value(Kind::StringValue(String::from_utf8_lossy(bytes).into_owned()))
}

const fn number(number: f64) -> Value {
    value(Kind::NumberValue(number))
}

const fn list(values: Vec<Value>) -> Value {
    value(Kind::ListValue(ListValue { values }))
}

const fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::headers::tests::decision;

    /// The fields of the dynamic metadata of an answer with this delay.
    fn fields(delay_us: u64) -> Option<Struct> {
        let request = Request { domain: "test".into(), descriptors: Vec::new(), hits_addend: 0 };
        let decision = Decision { delay_us, ..decision(Vec::new()) };
        write_response(&request, decision, &Headers::default(), false).dynamic_metadata
    }

    #[test]
    fn a_delay_is_told_in_seconds_and_only_where_there_is_one() {
        assert_eq!(fields(0), None);
        for (micros, seconds) in
            [(250_000, "0.25"), (1, "0.000001"), (2_000_000, "2"), (61_000_001, "61.000001")]
        {
            assert_eq!(fields(micros), Some(structure(vec![("delay", text(seconds.as_bytes()))])));
        }
    }
}
