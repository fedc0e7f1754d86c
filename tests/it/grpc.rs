//! The gRPC port, asked by an independently generated client, and by hand where that cannot.

use crate::support::{self, Server, Store, TempDir, on_every_store};
use envoy_types::pb::{
    envoy::{
        extensions::common::ratelimit::v3::{
            RateLimitDescriptor,
            rate_limit_descriptor::{Entry, RateLimitOverride},
        },
        service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse, rate_limit_service_client::RateLimitServiceClient,
        },
    },
    google::protobuf::{Struct, UInt64Value, Value as ProtoValue, value::Kind},
};
use prost::{Message as _, bytes::Bytes};
use serde_json::{Map, Value, json};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tollgate::grpc::proto::envoy::{self as ours, r#type::v3::RateLimitUnit};
use tonic::{Code, Status, client::Grpc, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// A client as Envoy's own protos generate it. Clones share its connection.
#[derive(Clone)]
pub(crate) struct Client(RateLimitServiceClient<Channel>);

impl Client {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        Self::over(channel(to).await)
    }

    pub(crate) fn over(channel: Channel) -> Self {
        Self(RateLimitServiceClient::new(channel))
    }

    /// Asks what a conformance case describes.
    pub(crate) async fn ask(&mut self, request: &Value) -> Result<RateLimitResponse, Status> {
        Ok(self.0.should_rate_limit(read_request(request)).await?.into_inner())
    }

    /// The same with a deadline, which the server is told.
    pub(crate) async fn ask_within(
        &mut self,
        request: &Value,
        timeout: Duration,
    ) -> Result<RateLimitResponse, Status> {
        let mut request = tonic::Request::new(read_request(request));
        request.set_timeout(timeout);
        Ok(self.0.should_rate_limit(request).await?.into_inner())
    }
}

async fn channel(to: SocketAddr) -> Channel {
    Channel::from_shared(format!("http://{to}")).unwrap().connect().await.unwrap()
}

fn read_request(request: &Value) -> RateLimitRequest {
    let descriptors = request["descriptors"].as_array().unwrap();
    RateLimitRequest {
        domain: request["domain"].as_str().unwrap().to_owned(),
        descriptors: descriptors.iter().map(read_descriptor).collect(),
        hits_addend: request["hits_addend"].as_u64().unwrap_or_default().try_into().unwrap(),
    }
}

fn read_descriptor(descriptor: &Value) -> RateLimitDescriptor {
    let entries = descriptor["entries"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let limit = descriptor.get("limit").map(|limit| RateLimitOverride {
        requests_per_unit: limit["requests_per_unit"].as_u64().unwrap().try_into().unwrap(),
        // The independent types are older than WEEK.
        unit: RateLimitUnit::from_str_name(limit["unit"].as_str().unwrap()).unwrap().into(),
    });
    RateLimitDescriptor {
        entries: entries
            .map(|entry| Entry { key: text(&entry[0]), value: text(&entry[1]) })
            .collect(),
        limit,
        hits_addend: descriptor["hits_addend"].as_u64().map(|value| UInt64Value { value }),
        is_negative_hits: descriptor["is_negative_hits"].as_bool().unwrap_or_default(),
    }
}

/// Whether an answer was given without the store.
pub(crate) fn is_degraded(answer: &RateLimitResponse) -> bool {
    let metadata = answer.dynamic_metadata.as_ref().map(struct_to_json);
    metadata.is_some_and(|metadata| metadata["degraded"] == json!(true))
}

pub(crate) fn struct_to_json(structure: &Struct) -> Value {
    let fields = structure.fields.iter();
    Value::Object(fields.map(|(name, value)| (name.clone(), to_json(value))).collect::<Map<_, _>>())
}

fn to_json(value: &ProtoValue) -> Value {
    match value.kind.as_ref().unwrap() {
        Kind::NullValue(_) => Value::Null,
        Kind::NumberValue(number) => json!(number),
        Kind::StringValue(text) => json!(text),
        Kind::BoolValue(boolean) => json!(boolean),
        Kind::StructValue(structure) => struct_to_json(structure),
        Kind::ListValue(list) => list.values.iter().map(to_json).collect(),
    }
}

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 3, name: per_user}
  - key: team
    token_bucket: {rate: 1000/day}
    overdraw: true
  - key: plan
    limits:
      - rate_limit: {unit: day, requests_per_unit: 100}
      - rate_limit: {unit: hour, requests_per_unit: 2}
        name: hourly
        message: Two an hour.
  - key: off
    rate_limit: {unit: day, requests_per_unit: 0}
    enabled: false
  - key: mixed
    limits:
      - rate_limit: {unit: year, requests_per_unit: 1}
        name: quota
        quota_mode: true
      - rate_limit: {unit: day, requests_per_unit: 1}
        name: enforced
  - key: other_quota
    rate_limit: {unit: day, requests_per_unit: 100}
    quota_mode: true
  - key: nothing
    rate_limit: {unit: day, requests_per_unit: 0}
  - key: ages
    token_bucket: {rate: 1/year, burst: 4294967295}
  - key: burst
    token_bucket: {rate: 100/s, burst: 500}
";

on_every_store! {
    a_refusal_says_which_limit_how_much_and_when_to_retry,
    a_cost_that_can_never_pass_is_told_so_without_a_time,
    several_limits_on_one_descriptor_must_all_pass_and_the_tightest_is_shown,
    a_cost_known_afterwards_is_taken_and_refuses_the_next_peek,
    a_refund_gives_back,
    a_limit_that_is_off_takes_no_part,
    a_burst_that_is_no_unit_is_shown_without_one,
    values_of_any_bytes_and_length_are_limited_each_by_itself,
    of_several_limits_the_one_that_refuses_is_shown,
    the_first_that_refuses_is_named_for_what_it_is_and_the_longest_wait_decides,
    a_reset_in_thousands_of_years_is_told_as_the_longest_there_is,
    a_limit_and_a_faster_one_from_the_request_on_the_same_entries_keep_count,
}

struct Shop {
    client: Client,
    server: Server,
    _files: TempDir,
}

impl Shop {
    async fn open(store: &Store) -> Self {
        let files = TempDir::new();
        let server = Server::start_on(store, &files.file("shop.yaml", RULES)).await;
        Self { client: Client::connect(server.grpc).await, server, _files: files }
    }

    async fn ask(&mut self, descriptors: Value) -> RateLimitResponse {
        self.client.ask(&json!({ "domain": "shop", "descriptors": descriptors })).await.unwrap()
    }
}

fn header<'a>(response: &'a RateLimitResponse, name: &str) -> Option<&'a str> {
    let mut headers = response.response_headers_to_add.iter();
    headers.find(|header| header.key == name).map(|header| header.value.as_str())
}

fn body(response: &RateLimitResponse) -> &str {
    std::str::from_utf8(&response.raw_body).unwrap()
}

async fn a_refusal_says_which_limit_how_much_and_when_to_retry(store: &Store) {
    let mut shop = Shop::open(store).await;
    let ada = json!([{ "entries": [["user", "ada"]] }]);
    for left in [2, 1, 0] {
        let answer = shop.ask(ada.clone()).await;
        assert_eq!(answer.overall_code(), OK);
        assert_eq!(answer.statuses[0].limit_remaining, left);
        assert!(answer.raw_body.is_empty() && answer.response_headers_to_add.is_empty());
    }
    let answer = shop.ask(ada).await;
    assert_eq!(answer.overall_code(), OVER_LIMIT);
    let retry: i64 = header(&answer, "retry-after").unwrap().parse().unwrap();
    assert!((28_700..=28_800).contains(&retry), "a third of a day: {retry}");
    assert_eq!(answer.statuses[0].duration_until_reset.as_ref().unwrap().seconds, retry);
    let text = format!("The rate limit `per_user` (3 per day) is reached. Retry in {retry} s.\n");
    assert_eq!(body(&answer), text);
}

async fn a_cost_that_can_never_pass_is_told_so_without_a_time(store: &Store) {
    let mut shop = Shop::open(store).await;
    let answer = shop.ask(json!([{ "entries": [["user", "ada"]], "hits_addend": 4 }])).await;
    assert_eq!(answer.overall_code(), OVER_LIMIT);
    assert_eq!(header(&answer, "retry-after"), None);
    assert_eq!(answer.statuses[0].duration_until_reset, None);
    assert!(body(&answer).contains("never"), "{}", body(&answer));
}

async fn several_limits_on_one_descriptor_must_all_pass_and_the_tightest_is_shown(store: &Store) {
    let mut shop = Shop::open(store).await;
    let free = json!([{ "entries": [["plan", "free"]] }]);
    for left in [1, 0] {
        let answer = shop.ask(free.clone()).await;
        assert_eq!(answer.statuses[0].limit_remaining, left);
        assert_eq!(answer.statuses[0].current_limit.as_ref().unwrap().name, "hourly");
    }
    let answer = shop.ask(free).await;
    assert_eq!(answer.overall_code(), OVER_LIMIT);
    assert_eq!(body(&answer), "Two an hour.");
}

async fn a_cost_known_afterwards_is_taken_and_refuses_the_next_peek(store: &Store) {
    let mut shop = Shop::open(store).await;
    let team = |hits: u64| json!([{ "entries": [["team", "a"]], "hits_addend": hits }]);
    assert_eq!(shop.ask(team(200)).await.statuses[0].limit_remaining, 800);
    assert_eq!(shop.ask(team(0)).await.overall_code(), OK);
    assert_eq!(shop.ask(team(900)).await.overall_code(), OK, "800 were left when it was charged");
    assert_eq!(shop.ask(team(0)).await.overall_code(), OVER_LIMIT);
}

async fn a_refund_gives_back(store: &Store) {
    let mut shop = Shop::open(store).await;
    let take = json!([{ "entries": [["user", "ada"]], "hits_addend": 3 }]);
    assert_eq!(shop.ask(take.clone()).await.overall_code(), OK);
    let refund =
        json!([{ "entries": [["user", "ada"]], "hits_addend": 2, "is_negative_hits": true }]);
    let answer = shop.ask(refund).await;
    assert_eq!((answer.overall_code(), answer.statuses[0].limit_remaining), (OK, 2));
}

async fn a_limit_that_is_off_takes_no_part(store: &Store) {
    let mut shop = Shop::open(store).await;
    let answer = shop.ask(json!([{ "entries": [["off", "x"]] }])).await;
    assert_eq!(answer.overall_code(), OK);
    assert_eq!((&answer.statuses[0].current_limit, answer.statuses[0].limit_remaining), (&None, 0));
}

async fn a_burst_that_is_no_unit_is_shown_without_one(store: &Store) {
    let mut shop = Shop::open(store).await;
    let answer = shop.ask(json!([{ "entries": [["burst", "x"]] }])).await;
    let limit = answer.statuses[0].current_limit.clone().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit), (500, 0));
    assert_eq!(answer.statuses[0].limit_remaining, 499);
    assert_eq!(answer.statuses[0].duration_until_reset.as_ref().unwrap().seconds, 1);
}

const OK: envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code =
    envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code::Ok;
const OVER_LIMIT: envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code =
    envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code::OverLimit;

/// Sends a message that was encoded by hand.
async fn send(
    to: SocketAddr,
    message: ours::service::ratelimit::v3::RateLimitRequest,
) -> Result<ours::service::ratelimit::v3::RateLimitResponse, Status> {
    let mut grpc = Grpc::new(channel(to).await).max_encoding_message_size(usize::MAX);
    grpc.ready().await.unwrap();
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let codec = tonic_prost::ProstCodec::default();
    let answer = grpc.unary(tonic::Request::new(message), path.parse().unwrap(), codec).await?;
    Ok(answer.into_inner())
}

fn with_value(value: impl Into<Bytes>) -> ours::service::ratelimit::v3::RateLimitRequest {
    use ours::extensions::common::ratelimit::v3::{
        RateLimitDescriptor, rate_limit_descriptor::Entry,
    };
    let entry = Entry { key: Bytes::from_static(b"user"), value: value.into() };
    ours::service::ratelimit::v3::RateLimitRequest {
        domain: Bytes::from_static(b"shop"),
        descriptors: vec![RateLimitDescriptor { entries: vec![entry], ..Default::default() }],
        hits_addend: 1,
    }
}

async fn values_of_any_bytes_and_length_are_limited_each_by_itself(store: &Store) {
    let shop = Shop::open(store).await;
    let long = |last: u8| {
        let mut value = vec![b'x'; 50_000];
        value.push(last);
        value
    };
    for value in
        [vec![0xFF], vec![0xFE], vec![0], b"%FF".to_vec(), long(b'a'), long(b'b'), long(0xFF)]
    {
        for asked in 0..4 {
            let answer = send(shop.server.grpc, with_value(value.clone())).await.unwrap();
            let is_over = answer.overall_code == OVER_LIMIT as i32;
            assert_eq!(is_over, asked == 3, "{:?}…", &value[..value.len().min(4)]);
        }
    }
}

#[tokio::test]
async fn what_only_an_operator_can_cause_is_named_in_words() {
    let mut shop = Shop::open(&Store::Memory).await;
    let entries = |count: usize| vec![json!(["a", "b"]); count];
    let cases = [
        (json!({ "domain": "", "descriptors": [] }), "`domain` is empty"),
        (json!({ "domain": "shop", "descriptors": [] }), "`descriptors` is empty"),
        (
            json!({ "domain": "shop", "descriptors": vec![json!({ "entries": [] }); 101] }),
            "101 descriptors",
        ),
        (
            json!({ "domain": "shop", "descriptors": [{ "entries": [] }, { "entries": entries(65) }] }),
            "descriptors[1] has 65 entries",
        ),
        (
            json!({ "domain": "none", "descriptors": [{ "entries": [], "limit": { "requests_per_unit": 1, "unit": "UNKNOWN" } }] }),
            "descriptors[0].limit.unit",
        ),
        (
            json!({ "domain": "shop", "descriptors": [{ "entries": [], "hits_addend": 1_u64 << 63 }] }),
            "descriptors[0].hits_addend",
        ),
    ];
    for (request, words) in cases {
        let status = shop.client.ask(&request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{words}");
        assert!(status.message().contains(words), "{words}: {}", status.message());
    }
    // As many as are allowed.
    let most =
        json!({ "domain": "shop", "descriptors": vec![json!({ "entries": entries(64) }); 100] });
    assert_eq!(shop.client.ask(&most).await.unwrap().statuses.len(), 100);
    let dear = json!([{ "entries": [["user", "x"]], "hits_addend": (1_u64 << 63) - 1 }]);
    assert_eq!(shop.ask(dear).await.overall_code(), OVER_LIMIT);
}

#[tokio::test]
async fn a_message_above_four_mebibytes_is_refused_as_too_large() {
    let shop = Shop::open(&Store::Memory).await;
    let status = send(shop.server.grpc, with_value(vec![b'x'; 4 << 20])).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let answer = send(shop.server.grpc, with_value(vec![b'x'; (4 << 20) - 100])).await.unwrap();
    assert_eq!(answer.overall_code, OK as i32);
}

#[tokio::test]
async fn a_storm_of_cancelled_calls_does_not_end_the_connection_for_the_others() {
    let shop = Shop::open(&Store::Memory).await;
    let mut connection = TcpStream::connect(shop.server.grpc).await.unwrap();
    let message = with_value("ada").encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let message = [&[0][..], &length, &message].concat();

    // A call that is under way, then a thousand that are cancelled as soon as they are sent, all of it
    // there before the server can look at any of them.
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    bytes.extend(frame(HEADERS, END_HEADERS, 1, &headers()));
    for call in 1..=1000 {
        let stream = 2 * call + 1;
        bytes.extend(frame(HEADERS, END_HEADERS, stream, &headers()));
        bytes.extend(frame(RST_STREAM, 0, stream, &CANCEL));
    }
    bytes.extend(frame(DATA, END_STREAM, 1, &message));
    connection.write_all(&bytes).await.unwrap();

    let mut seen = Vec::new();
    loop {
        let (kind, stream) = read_frame(&mut connection).await;
        seen.push(kind);
        assert_ne!(kind, GOAWAY, "after {} frames", seen.len());
        if (kind, stream) == (DATA, 1) {
            return;
        }
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[1..], &[kind, flags], &stream, payload].concat()
}

/// The headers of a call, each a literal that no table remembers.
fn headers() -> Vec<u8> {
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
        (":authority", "tollgate"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    headers.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

/// The kind and stream of the next frame.
async fn read_frame(connection: &mut TcpStream) -> (u8, u32) {
    let mut head = [0; 9];
    connection.read_exact(&mut head).await.unwrap();
    let [a, b, c, kind, _, s, t, u, v] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    connection.read_exact(&mut payload).await.unwrap();
    (kind, u32::from_be_bytes([s, t, u, v]))
}

async fn of_several_limits_the_one_that_refuses_is_shown(store: &Store) {
    let mut shop = Shop::open(store).await;
    let mixed = json!([{ "entries": [["mixed", "x"]] }, { "entries": [["other_quota", "x"]] }]);
    assert_eq!(shop.ask(mixed.clone()).await.overall_code(), OK);
    let answer = shop.ask(mixed).await;
    assert_eq!(answer.overall_code(), OVER_LIMIT);
    let status = &answer.statuses[0];
    assert_eq!(
        status.current_limit.as_ref().unwrap().name,
        "enforced",
        "the quota has longer to go"
    );
    let retry: i64 = header(&answer, "retry-after").unwrap().parse().unwrap();
    assert_eq!(status.duration_until_reset.as_ref().unwrap().seconds, retry);
}

async fn the_first_that_refuses_is_named_for_what_it_is_and_the_longest_wait_decides(
    store: &Store,
) {
    let mut shop = Shop::open(store).await;
    let both = json!([
        { "entries": [["user", "ada"]], "hits_addend": 3 },
        { "entries": [["nothing", "x"]] },
    ]);
    shop.ask(json!([{ "entries": [["user", "ada"]] }])).await;
    let answer = shop.ask(both).await;
    assert_eq!(
        body(&answer),
        "The rate limit `per_user` (3 per day) is reached, and others are over too. \
         As it is, the request can never pass.\n"
    );
    assert_eq!(header(&answer, "retry-after"), None, "the other never passes");
}

async fn a_reset_in_thousands_of_years_is_told_as_the_longest_there_is(store: &Store) {
    let mut shop = Shop::open(store).await;
    let answer =
        shop.ask(json!([{ "entries": [["ages", "x"]], "hits_addend": 4_000_000_000_u32 }])).await;
    let reset = answer.statuses[0].duration_until_reset.as_ref().unwrap().seconds;
    assert_eq!(reset, 4_503_599_628, "2^52 µs, 142 years");
    let request = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"ages","value":"x"}]}]}"#;
    let response = support::post(shop.server.http, "/json", request).await.unwrap();
    assert_eq!(response.status, 200);
    assert!(response.body.contains("4503599628"), "{}", response.body);
}

async fn a_limit_and_a_faster_one_from_the_request_on_the_same_entries_keep_count(store: &Store) {
    let mut shop = Shop::open(store).await;
    let both = json!([
        { "entries": [["user", "ada"]] },
        { "entries": [["user", "ada"]], "limit": { "requests_per_unit": 1_000_000, "unit": "SECOND" } },
    ]);
    assert_eq!(shop.ask(both.clone()).await.overall_code(), OK);
    let answer = shop.ask(json!([{ "entries": [["user", "ada"]] }])).await;
    assert_eq!(answer.statuses[0].limit_remaining, 0, "2 of 3 were used, and this is the third");
}

#[tokio::test]
async fn the_encodings_of_envoy_and_ours_read_each_other() {
    let theirs = read_request(&json!({
        "domain": "shop",
        "hits_addend": 7,
        "descriptors": [
            {
                "entries": [["plan", "free"], ["user", "ä"]],
                "limit": { "requests_per_unit": 42, "unit": "WEEK" },
                "hits_addend": 0,
                "is_negative_hits": true,
            },
            { "entries": [] },
        ],
    }));
    let bytes = theirs.encode_to_vec();
    let read = ours::service::ratelimit::v3::RateLimitRequest::decode(&bytes[..]).unwrap();
    assert_eq!(&read.descriptors[0].entries[1].value[..], "ä".as_bytes());
    assert_eq!(read.descriptors[0].limit.unwrap().unit, 7);
    assert_eq!(read.descriptors[0].hits_addend, Some(0));
    assert!(read.descriptors[0].is_negative_hits);
    assert_eq!(read.descriptors[1].hits_addend, None);
    assert_eq!(read.encode_to_vec(), bytes);

    use ours::service::ratelimit::v3::{
        RateLimitResponse as Answer,
        rate_limit_response::{DescriptorStatus, RateLimit},
    };
    let answer = Answer {
        overall_code: 2,
        statuses: vec![DescriptorStatus {
            code: 2,
            current_limit: Some(RateLimit { name: "n".into(), requests_per_unit: 5, unit: 7 }),
            limit_remaining: 4,
            duration_until_reset: Some(prost_types::Duration { seconds: 9, nanos: 0 }),
        }],
        response_headers_to_add: vec![ours::config::core::v3::HeaderValue {
            key: "retry-after".into(),
            value: "9".into(),
            raw_value: Bytes::new(),
        }],
        request_headers_to_add: vec![ours::config::core::v3::HeaderValue {
            key: "x".into(),
            value: String::new(),
            raw_value: Bytes::from_static(b"\xFF"),
        }],
        raw_body: Bytes::from_static(b"no"),
        dynamic_metadata: Some(prost_types::Struct::default()),
    };
    let bytes = answer.encode_to_vec();
    let read = RateLimitResponse::decode(&bytes[..]).unwrap();
    assert_eq!(read.overall_code(), OVER_LIMIT);
    assert_eq!(read.statuses[0].current_limit.as_ref().unwrap().name, "n");
    assert_eq!(read.statuses[0].limit_remaining, 4);
    assert_eq!(header(&read, "retry-after"), Some("9"));
    assert_eq!(&read.request_headers_to_add[0].raw_value[..], b"\xFF");
    assert_eq!(body(&read), "no");
    assert_eq!(read.encode_to_vec(), bytes);
}

/// The health of a service: 1 is SERVING, 2 is NOT_SERVING.
pub(crate) async fn health(to: SocketAddr, service: &str) -> i32 {
    let request = HealthCheckRequest { service: service.to_owned() };
    HealthClient::new(channel(to).await).check(request).await.unwrap().into_inner().status
}

#[tokio::test]
async fn health_is_told_for_the_server_and_the_service() {
    let shop = Shop::open(&Store::Memory).await;
    for service in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(health(shop.server.grpc, service).await, 1, "{service:?}");
    }
    let unknown = HealthCheckRequest { service: "nobody".to_owned() };
    let mut client = HealthClient::new(channel(shop.server.grpc).await);
    assert_eq!(client.check(unknown).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn reflection_lists_the_service_and_its_published_types() {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let shop = Shop::open(&Store::Memory).await;
    let mut client = ServerReflectionClient::new(channel(shop.server.grpc).await);
    let mut ask = async |message_request| {
        let request =
            ServerReflectionRequest { host: String::new(), message_request: Some(message_request) };
        let requests = tokio_stream::iter([request]);
        let mut answers = client.server_reflection_info(requests).await.unwrap().into_inner();
        answers.message().await.unwrap().unwrap().message_response.unwrap()
    };
    let MessageResponse::ListServicesResponse(list) =
        ask(MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list")
    };
    let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    assert!(names.iter().any(|name| name == tollgate::grpc::SERVICE), "{names:?}");

    let symbol = "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry".to_owned();
    let MessageResponse::FileDescriptorResponse(file) =
        ask(MessageRequest::FileContainingSymbol(symbol)).await
    else {
        panic!("no file")
    };
    let file =
        prost_types::FileDescriptorProto::decode(&file.file_descriptor_proto[0][..]).unwrap();
    let entry = &file.message_type[0].nested_type[0];
    assert_eq!(entry.field[1].r#type(), prost_types::field_descriptor_proto::Type::String);
}
