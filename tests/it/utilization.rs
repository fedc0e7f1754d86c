//! Load that is shed by class, and what workers report, through the real ports.

use crate::{
    grpc::Client,
    support::{
        Leases, PATIENCE, Redis, Reports, Server, Store, TempDir, acquire, on, on_every_store,
        post, report, until,
    },
};
use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitResponse, rate_limit_response::Code,
};
use prost::{Message as _, bytes::Bytes};
use serde_json::{Value, json};
use std::{collections::HashMap, time::Duration};
use tokio::{sync::watch, task::JoinSet, time};
use tollgate::grpc::proto::{
    tollgate::v1::{
        ReportUtilizationRequest, ReportUtilizationResponse, report_utilization_request::Load,
    },
    xds::data::orca::v3::OrcaLoadReport,
};
use tonic::Code as Status;

/// Shedding that a test can wait for; between a utilization of 0.7 and 0.8 it stands still.
const RULES: &str = "
domain: fleet
pools:
  api:
    capacity: reported
    reserved: 20%
    utilization:
      hold_off: 0s
      shed_all_after: 4s
      report_ttl: 10m
      shed: [test, get, post]
  slow:
    utilization: {shed: [get]}
  grown:
    capacity: reported
    reserved: 20%
    utilization: {report_ttl: 10s}
  plain: {capacity: 5}
descriptors:
  - key: class
    utilization: {pool: api}
  - key: said
    utilization: {pool: api}
    name: shed
    message: \"Not now.\\n\"
  - key: kind
    descriptors:
      - key: user
        descriptors:
          - key: path
            utilization: {pool: api, class: kind, shed_by: [user]}
  - key: dark
    utilization: {pool: api}
    shadow_mode: true
  - key: priority
    fleet: {pool: grown}
  - key: priority
    value: critical
    fleet: {pool: grown, critical: true}
  - key: slow
    utilization: {pool: slow}
  - key: plain
    fleet: {pool: plain}
  - key: worker
    utilization_report: {pool: api}
  - key: rate
    rate_limit: {unit: year, requests_per_unit: 5}
";

on_every_store! {
    a_worker_is_told_how_it_stands,
    utilization_is_the_mean_by_slots,
    load_reports_count_as_they_say,
    what_is_no_report_is_refused_and_changes_nothing,
    a_report_that_comes_late_or_twice_is_refused,
    reports_are_told_apart_to_the_microsecond,
    a_name_may_have_so_many_bytes,
    ten_thousand_workers_of_one_sender_find_an_end,
    classes_are_dropped_in_their_order,
    who_is_dropped_is_told_so,
    a_caller_is_dropped_or_is_not,
    a_shadowed_shedder_drops_nobody,
    who_gives_back_is_not_dropped,
    a_limit_in_the_request_replaces_no_shedder,
    a_refusal_by_another_limit_and_a_drop_are_one_refusal,
    capacity_is_what_the_workers_say,
    reports_ride_on_requests,
    what_makes_a_report_of_a_request,
    reports_ride_on_acquires,
    acquires_are_drawn_for_as_well,
    a_worker_may_keep_reporting,
    a_worker_that_does_not_read_is_heard,
    a_server_that_leaves_ends_the_streams,
}

struct Pool {
    client: Client,
    reports: Reports,
    leases: Leases,
    server: Server,
    _files: TempDir,
}

impl Pool {
    async fn open(store: &Store) -> Self {
        let files = TempDir::new();
        let server = Server::start_on(store, &files.file("rules.yaml", RULES)).await;
        let client = Client::connect(server.grpc).await;
        let reports = Reports::connect(server.grpc).await;
        let leases = Leases::connect(server.grpc).await;
        Self { client, reports, leases, server, _files: files }
    }

    async fn ask(&mut self, descriptors: Value) -> RateLimitResponse {
        let request = json!({ "domain": "fleet", "descriptors": descriptors });
        self.client.ask(&request).await.unwrap()
    }

    /// Asks so many times with these entries: how many are dropped.
    async fn dropped(&mut self, entries: &Value, times: usize) -> usize {
        let mut dropped = 0;
        for _ in 0..times {
            let answer = self.ask(json!([{ "entries": entries }])).await;
            dropped += usize::from(answer.overall_code() == Code::OverLimit);
        }
        dropped
    }

    /// What a worker says, and is told.
    async fn say(&self, worker: &str, load: Load) -> Option<f64> {
        let answer = self.reports.say(report("fleet", worker, load)).await.unwrap();
        assert!(answer.counted);
        answer.utilization
    }

    /// Waits until the log has told of so many, in one line or in several.
    async fn logged(&self, count: u64, what: &str) {
        let told = |line: &str| {
            let (_, after) = line.split_once(what)?;
            let (_, number) = after.rsplit_once('(')?;
            number.split_whitespace().next()?.parse::<u64>().ok()
        };
        until("the log tells it", async || {
            (self.server.log().lines().filter_map(told).sum::<u64>() == count).then_some(())
        })
        .await;
    }

    async fn say_slots(&self, worker: &str, busy: u32, total: u32) -> Option<f64> {
        let load = Load::BusySlots(busy);
        let saying =
            ReportUtilizationRequest { total_slots: total, ..report("fleet", worker, load) };
        self.reports.say(saying).await.unwrap().utilization
    }
}

async fn a_worker_is_told_how_it_stands(store: &Store) {
    let pool = Pool::open(store).await;
    let nobody = pool.reports.look("fleet").await;
    assert_eq!((nobody.counted, nobody.utilization, nobody.workers), (false, None, 0));
    assert_eq!(nobody.shedding, 0.0);
    let one = pool.reports.say(report("fleet", "one", Load::Ratio(0.6))).await.unwrap();
    assert_eq!((one.counted, one.utilization, one.workers), (true, Some(0.6), 1));
    // Ten minutes, four times.
    assert_eq!(one.report_again_after.unwrap().seconds, 150);
    let slow = ReportUtilizationRequest {
        pool: Bytes::from_static(b"slow"),
        ..report("fleet", "one", Load::Ratio(0.5))
    };
    let slow = pool.reports.say(slow).await.unwrap();
    assert!((slow.shedding - -28.0 / 120.0).abs() < 1e-5, "at rest: {}", slow.shedding);
    assert_eq!(slow.report_again_after.unwrap().seconds, 5);
}

async fn utilization_is_the_mean_by_slots(store: &Store) {
    let pool = Pool::open(store).await;
    assert_eq!(pool.say_slots("large", 30, 30).await, Some(1.0));
    assert_eq!(pool.say_slots("small", 0, 10).await, Some(0.75));
    // What a worker says takes the place of what it said, also when it has other slots.
    assert_eq!(pool.say_slots("large", 5, 10).await, Some(0.25));
    // A ratio counts as one slot unless there are more.
    assert_eq!(pool.say("third", Load::Ratio(10.0)).await, Some(0.714_285));
    let heavy =
        ReportUtilizationRequest { total_slots: 20, ..report("fleet", "third", Load::Ratio(1.25)) };
    let heavy = pool.reports.say(heavy).await.unwrap();
    assert_eq!((heavy.utilization, heavy.workers), (Some(0.75), 3));
}

async fn load_reports_count_as_they_say(store: &Store) {
    let pool = Pool::open(store).await;
    let named = |named: &[(&str, f64)]| -> HashMap<String, f64> {
        named.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    };
    let orca = OrcaLoadReport { cpu_utilization: 0.4, mem_utilization: 0.9, ..Default::default() };
    assert_eq!(pool.say("one", Load::Orca(orca.clone())).await, Some(0.4));
    let with_names =
        OrcaLoadReport { utilization: named(&[("queue", 0.7), ("disk", 0.1)]), ..orca.clone() };
    assert_eq!(pool.say("one", Load::Orca(with_names.clone())).await, Some(0.7));
    let own = OrcaLoadReport { application_utilization: 0.2, ..with_names.clone() };
    assert_eq!(pool.say("one", Load::Orca(own)).await, Some(0.2));
    let above = OrcaLoadReport { application_utilization: 1.3, ..with_names };
    assert_eq!(pool.say("one", Load::Orca(above)).await, Some(1.3));

    // Nothing but zeros is no report: what it said before stands.
    let nothing = OrcaLoadReport { mem_utilization: 0.5, ..Default::default() };
    // But who says how many slots it has is there, and idle.
    let idle = ReportUtilizationRequest {
        total_slots: 2,
        ..report("fleet", "idle", Load::Orca(nothing.clone()))
    };
    let answer = pool.reports.say(idle).await.unwrap();
    assert_eq!((answer.counted, answer.utilization, answer.workers), (true, Some(0.433_333), 2));
    let answer = pool.reports.say(report("fleet", "one", Load::Orca(nothing))).await.unwrap();
    assert_eq!((answer.counted, answer.utilization, answer.workers), (false, Some(0.433_333), 2));
}

/// What an independent implementation encodes is what is read: made with Google's protobuf for Python, of the
/// `xds-protos` package (1.85), with every field of the message set.
#[test]
fn load_reports_are_those_of_xds() {
    const ENCODED: &str = include_str!("utilization/orca.hex");
    let bytes: Vec<u8> = (0..ENCODED.trim().len() / 2)
        .map(|place| u8::from_str_radix(&ENCODED[2 * place..2 * place + 2], 16).unwrap())
        .collect();
    let read = OrcaLoadReport::decode(&bytes[..]).unwrap();
    assert_eq!((read.cpu_utilization, read.mem_utilization), (0.25, 0.5));
    assert_eq!(read.application_utilization, 1.5);
    assert_eq!(read.utilization, HashMap::from([("disk".to_owned(), 0.75)]));
}

async fn what_is_no_report_is_refused_and_changes_nothing(store: &Store) {
    let pool = Pool::open(store).await;
    pool.say_slots("one", 3, 4).await;
    let before = pool.reports.look("fleet").await;
    let said = |load| report("fleet", "one", load);
    let slots = |busy, total| ReportUtilizationRequest {
        total_slots: total,
        ..said(Load::BusySlots(busy))
    };
    let orca = |cpu_utilization, application_utilization, named: f64| {
        said(Load::Orca(OrcaLoadReport {
            cpu_utilization,
            application_utilization,
            utilization: HashMap::from([("queue".to_owned(), named)]),
            ..Default::default()
        }))
    };
    let of = |pool: &'static str| ReportUtilizationRequest {
        pool: Bytes::from_static(pool.as_bytes()),
        ..said(Load::Ratio(0.5))
    };
    let invalid = Status::InvalidArgument;
    for (request, code, words) in [
        (said(Load::Ratio(f64::NAN)), invalid, "`ratio` is not a number"),
        (said(Load::Ratio(-0.1)), invalid, "`ratio` is negative"),
        (said(Load::Ratio(85.0)), invalid, "80 % is 0.8, not 80"),
        (said(Load::Ratio(f64::INFINITY)), invalid, "at most 10"),
        (slots(41, 4), invalid, "`busy_slots` is 41, more than ten times the 4"),
        (slots(4, 0), invalid, "`total_slots` is 0"),
        (slots(0, 0), invalid, "`total_slots` is 0"),
        (slots(4, 100_001), invalid, "at most 100000"),
        (orca(f64::NAN, 0.5, 0.5), invalid, "`orca.cpu_utilization` is not a number"),
        (orca(0.5, -1.0, 0.5), invalid, "`orca.application_utilization` is negative"),
        (orca(0.5, 0.5, 11.0), invalid, "`orca.utilization` is 11"),
        (of("apis"), Status::NotFound, "no pool \"apis\": its pools are api, slow, grown, plain"),
        (of("plain"), Status::FailedPrecondition, "takes no reports: give it `utilization:`"),
        (of(""), invalid, "`pool` is empty"),
        (report("floot", "one", Load::Ratio(0.5)), Status::NotFound, "domain \"floot\""),
        (report("", "one", Load::Ratio(0.5)), invalid, "`domain` is empty"),
        (report("fleet", "", Load::Ratio(0.5)), invalid, "`worker_id` is empty"),
        (report("fleet", &"w".repeat(257), Load::Ratio(0.5)), invalid, "257 bytes"),
        (ReportUtilizationRequest { load: None, ..said(Load::Ratio(0.5)) }, invalid, "no load"),
        (at(said(Load::Ratio(0.5)), -1), invalid, "`measured_at`"),
        (at(said(Load::Ratio(0.5)), i64::MAX), invalid, "`measured_at`"),
    ] {
        let shown = format!("{request:?}");
        let refused = pool.reports.say(request).await.expect_err(&shown);
        assert_eq!(refused.code(), code, "{shown}: {refused}");
        assert!(refused.message().contains(words), "{}", refused.message());
    }
    // Bytes that are no text are a name like any other.
    let strange = ReportUtilizationRequest {
        worker_id: Bytes::from_static(b"\xff\x00"),
        ..said(Load::Ratio(0.75))
    };
    assert_eq!(pool.reports.look("fleet").await, before, "nothing has changed");
    assert_eq!(pool.reports.say(strange).await.unwrap().workers, 2);
}

/// The same, measured at a time.
fn at(report: ReportUtilizationRequest, seconds: i64) -> ReportUtilizationRequest {
    let measured_at = Some(prost_types::Timestamp { seconds, nanos: 0 });
    ReportUtilizationRequest { measured_at, ..report }
}

async fn a_report_that_comes_late_or_twice_is_refused(store: &Store) {
    let pool = Pool::open(store).await;
    let say = async |worker: &str, ratio, seconds| {
        pool.reports.say(at(report("fleet", worker, Load::Ratio(ratio)), seconds)).await
    };
    // By whatever clock: this worker's has never been set.
    assert_eq!(say("one", 0.5, 100).await.unwrap().utilization, Some(0.5));
    assert_eq!(say("one", 0.6, 101).await.unwrap().utilization, Some(0.6));
    for seconds in [101, 100, 1] {
        let refused = say("one", 0.9, seconds).await.unwrap_err();
        assert_eq!(refused.code(), Status::Aborted);
        assert!(refused.message().contains("came late, or twice"), "{}", refused.message());
    }
    assert_eq!(pool.reports.look("fleet").await.utilization, Some(0.6));
    // Another worker has another clock.
    assert_eq!(say("two", 0.8, 1).await.unwrap().utilization, Some(0.7));
    // Without a time, it counts as it comes; what was measured before still counts no more.
    assert_eq!(pool.say("one", Load::Ratio(0.4)).await, Some(0.6));
    assert!(say("one", 0.9, 101).await.is_err());
    assert_eq!(say("one", 0.8, 102).await.unwrap().utilization, Some(0.8));
}

async fn reports_are_told_apart_to_the_microsecond(store: &Store) {
    let pool = Pool::open(store).await;
    let say = async |ratio, nanos| {
        let measured_at = Some(prost_types::Timestamp { seconds: 100, nanos });
        let said = report("fleet", "one", Load::Ratio(ratio));
        pool.reports.say(ReportUtilizationRequest { measured_at, ..said }).await
    };
    assert_eq!(say(0.5, 1_000).await.unwrap().utilization, Some(0.5));
    assert_eq!(say(0.6, 2_000).await.unwrap().utilization, Some(0.6));
    assert_eq!(say(0.9, 1_999).await.unwrap_err().code(), Status::Aborted);
}

async fn a_name_may_have_so_many_bytes(store: &Store) {
    let pool = Pool::open(store).await;
    for (place, name) in ["w".repeat(256), "v".repeat(256)].iter().enumerate() {
        for _ in 0..2 {
            let answer = pool.reports.say(report("fleet", name, Load::Ratio(0.5))).await.unwrap();
            assert_eq!(answer.workers as usize, place + 1, "and it is one worker");
        }
    }
}

/// Reports until the store is reached: on a busy machine that may take several attempts. So do workers.
async fn say_in_the_end(
    reports: &Reports,
    worker: &str,
) -> Result<ReportUtilizationResponse, tonic::Status> {
    let saying = async {
        loop {
            match reports.say(report("fleet", worker, Load::Ratio(0.5))).await {
                Err(status) if status.code() == Status::Unavailable => {
                    time::sleep(Duration::from_millis(10)).await;
                }
                said => return said,
            }
        }
    };
    time::timeout(PATIENCE, saying).await.expect("the store is reached")
}

async fn ten_thousand_workers_of_one_sender_find_an_end(store: &Store) {
    let pool = Pool::open(store).await;
    pool.say("true", Load::Ratio(0.5)).await;
    let mut senders = JoinSet::new();
    for sender in 0..20 {
        let reports = pool.reports.clone();
        senders.spawn(async move {
            let (mut counted, mut refused) = (0, 0);
            for place in 0..500 {
                let name = format!("made-up-{sender}-{place}");
                match say_in_the_end(&reports, &name).await {
                    Ok(_) => counted += 1,
                    Err(status) => {
                        assert_eq!(status.code(), Status::ResourceExhausted, "{status}");
                        assert!(status.message().contains("has 5000 workers"), "{status}");
                        refused += 1;
                    }
                }
            }
            (counted, refused)
        });
    }
    let sums = senders.join_all().await;
    let sums = sums.into_iter().fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
    assert_eq!(sums, (4_999, 5_001));
    // Who was there before goes on.
    pool.say("true", Load::Ratio(0.6)).await;
    assert_eq!(pool.reports.look("fleet").await.workers, 5_000);
    pool.logged(5_001, "reports found no room").await;
}

async fn classes_are_dropped_in_their_order(store: &Store) {
    let mut pool = Pool::open(store).await;
    let classes = ["test", "get", "post", "critical", "GET", ""];
    let mut dropped = async |amount: f64| {
        pool.reports.shed("fleet", amount).await;
        let mut dropped = HashMap::new();
        for class in classes {
            dropped.insert(class, pool.dropped(&json!([["class", class]]), 60).await);
        }
        dropped
    };
    for (amount, none, some, all) in [
        (1.0 / 6.0, &["get", "post"][..], "test", &[][..]),
        (0.5, &["post"], "get", &["test"]),
        (5.0 / 6.0, &[], "post", &["test", "get"]),
    ] {
        let dropped = dropped(amount).await;
        for class in none.iter().chain(&["critical", "GET", ""]) {
            assert_eq!(dropped[class], 0, "{class} at {amount}");
        }
        // Of sixty, by a chance of a half: not by a chance of one in a million.
        assert!((10..=50).contains(&dropped[some]), "{some} at {amount}: {}", dropped[some]);
        for class in all {
            assert_eq!(dropped[class], 60, "{class} at {amount}");
        }
    }
}

async fn who_is_dropped_is_told_so(store: &Store) {
    let mut pool = Pool::open(store).await;
    pool.reports.shed("fleet", 0.7).await;
    let dropped = pool.ask(json!([{ "entries": [["class", "test"]] }])).await;
    assert_eq!(dropped.overall_code(), Code::OverLimit);
    assert_eq!(
        String::from_utf8(dropped.raw_body.clone()).unwrap(),
        "The service is shedding load, and drops requests of the class `test`. Retry in 3 s.\n"
    );
    let header = dropped.response_headers_to_add.iter().find(|it| it.key == "retry-after");
    // At 0.7 of four seconds.
    assert_eq!(header.unwrap().value, "3");
    let status = &dropped.statuses[0];
    assert_eq!((status.code(), &status.current_limit), (Code::OverLimit, &None));
    assert_eq!(status.duration_until_reset.as_ref().unwrap().seconds, 3);

    let own = pool.ask(json!([{ "entries": [["said", "get"]] }])).await;
    assert_eq!(own.raw_body, b"Not now.\n");

    let body = json!({ "domain": "fleet", "descriptors": [{ "entries": [{ "key": "class", "value": "test" }] }] });
    let answer = post(pool.server.http, "/json", &body.to_string()).await.unwrap();
    assert_eq!((answer.status, answer.number("retry-after")), (503, Some(3)));

    let passes = pool.ask(json!([{ "entries": [["class", "critical"]] }])).await;
    let status = &passes.statuses[0];
    assert_eq!((status.code(), &status.current_limit), (Code::Ok, &None));
    assert_eq!(passes.response_headers_to_add, []);
}

async fn a_caller_is_dropped_or_is_not(store: &Store) {
    let mut pool = Pool::open(store).await;
    pool.reports.shed("fleet", 1.0 / 6.0).await;
    let (mut dropped, mut changed) = (0, 0);
    for user in 0..100 {
        let entries = json!([["kind", "test"], ["user", user.to_string()], ["path", "/a"]]);
        let first = pool.dropped(&entries, 1).await;
        // For a few of a hundred a turn may fall between two of them.
        let other = json!([["kind", "test"], ["user", user.to_string()], ["path", "/b"]]);
        let again = pool.dropped(&entries, 3).await + pool.dropped(&other, 2).await;
        dropped += first;
        changed += usize::from(again != 5 * first);
    }
    assert!(changed <= 10, "{changed} of 100 are dropped now and then");
    assert!((20..=80).contains(&dropped), "{dropped}");
    let get = json!([["kind", "get"], ["user", "1"], ["path", "/a"]]);
    assert_eq!(pool.dropped(&get, 5).await, 0, "the first entry is the class");
}

async fn a_shadowed_shedder_drops_nobody(store: &Store) {
    let mut pool = Pool::open(store).await;
    pool.reports.shed("fleet", 0.9).await;
    let answer = pool.ask(json!([{ "entries": [["dark", "test"]] }])).await;
    assert_eq!((answer.overall_code(), answer.statuses[0].code()), (Code::Ok, Code::Ok));
}

async fn who_gives_back_is_not_dropped(store: &Store) {
    let mut pool = Pool::open(store).await;
    pool.reports.shed("fleet", 0.9).await;
    let refund =
        json!({ "entries": [["class", "test"]], "hits_addend": 1, "is_negative_hits": true });
    let answer = pool.ask(json!([refund])).await;
    assert_eq!((answer.overall_code(), answer.statuses[0].code()), (Code::Ok, Code::Ok));
    assert_eq!(answer.statuses[0].duration_until_reset, None, "what counts nothing is never used");
}

async fn a_limit_in_the_request_replaces_no_shedder(store: &Store) {
    let mut pool = Pool::open(store).await;
    pool.reports.shed("fleet", 0.9).await;
    let limit = json!({ "requests_per_unit": 100, "unit": "DAY" });
    let entries = json!([["class", "test"]]);
    let answer = pool.ask(json!([{ "entries": entries, "limit": limit }])).await;
    assert_eq!(answer.overall_code(), Code::OverLimit);
}

async fn a_refusal_by_another_limit_and_a_drop_are_one_refusal(store: &Store) {
    let mut pool = Pool::open(store).await;
    pool.reports.shed("fleet", 0.9).await;
    let both = json!([{ "entries": [["rate", "ada"]] }, { "entries": [["class", "test"]] }]);
    for _ in 0..10 {
        assert_eq!(pool.ask(both.clone()).await.overall_code(), Code::OverLimit);
    }
    // What is dropped has spent nothing.
    let peek = pool.ask(json!([{ "entries": [["rate", "ada"]], "hits_addend": 0 }])).await;
    assert_eq!(peek.statuses[0].limit_remaining, 5);
}

async fn capacity_is_what_the_workers_say(store: &Store) {
    let mut pool = Pool::open(store).await;
    let take = |priority| acquire("fleet", &[&[["priority", priority]]]);
    // Nobody has said anything: everything is admitted, and counted.
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(pool.leases.acquired(take("usual")).await);
    }
    pool.logged(20, "requests were admitted").await;
    for id in held.drain(..) {
        pool.leases.released(&id).await;
    }

    let (mut keeping, sizes) = (JoinSet::new(), watch::Sender::new([10, 5, 0]));
    for (worker, name) in ["one", "two", "three"].into_iter().enumerate() {
        let (reports, sizes) = (pool.reports.clone(), sizes.subscribe());
        keeping.spawn(async move {
            loop {
                let total_slots = sizes.borrow()[worker];
                if total_slots > 0 {
                    let saying = report("fleet", name, Load::BusySlots(1));
                    let pool = Bytes::from_static(b"grown");
                    let saying = ReportUtilizationRequest { pool, total_slots, ..saying };
                    reports.say(saying).await.unwrap();
                }
                time::sleep(Duration::from_millis(200)).await;
            }
        });
    }
    let mut free = async |expected: u32| {
        let peek = json!([{ "entries": [["priority", "usual"]], "hits_addend": 0 }]);
        until("so many are free", async || {
            let answer = pool.ask(peek.clone()).await;
            (answer.statuses[0].limit_remaining == expected).then_some(())
        })
        .await;
    };
    // 15 slots, 3 of them reserved, once everybody who may be there has had his turn.
    free(12).await;
    let mut count = 0;
    while pool.leases.is_acquired(take("usual")).await {
        count += 1;
    }
    assert_eq!(count, 12);
    for _ in 0..30 {
        assert!(pool.leases.is_acquired(take("critical")).await);
    }
    let refused = pool.ask(json!([{ "entries": [["priority", "usual"]] }])).await;
    assert_eq!(refused.overall_code(), Code::OverLimit);
    assert_eq!(refused.statuses[0].current_limit, None, "no number that may be another soon");
    // There are more workers, and more room: 100 slots, 12 and 30 taken, and 20 reserved.
    sizes.send_modify(|sizes| sizes[2] = 85);
    until("there is more room", async || {
        let peek = json!([{ "entries": [["priority", "usual"]], "hits_addend": 0 }]);
        let answer = pool.ask(peek).await;
        (answer.statuses[0].limit_remaining == 58).then_some(())
    })
    .await;
}

async fn reports_ride_on_requests(store: &Store) {
    let mut pool = Pool::open(store).await;
    let ride = |worker: &str, permille: Option<u64>| match permille {
        Some(permille) => json!([{ "entries": [["worker", worker]], "hits_addend": permille }]),
        None => json!([{ "entries": [["worker", worker]] }]),
    };
    for (worker, permille, utilization, workers) in [
        ("one", Some(850), 0.85, 1),
        ("two", Some(0), 0.425, 2),
        ("one", Some(1200), 0.6, 2),
        // Without a number it says nothing, nor beyond what is believed, nor without a name.
        ("one", None, 0.6, 2),
        ("two", Some(10_001), 0.6, 2),
        ("two", Some(1 << 60), 0.6, 2),
        ("", Some(850), 0.6, 2),
    ] {
        let answer = pool.ask(ride(worker, permille)).await;
        assert_eq!(answer.overall_code(), Code::Ok, "an error would be for nobody");
        assert_eq!(answer.statuses[0].code(), Code::Ok);
        let seen = pool.reports.look("fleet").await;
        assert_eq!((seen.utilization, seen.workers), (Some(utilization), workers), "{worker}");
    }
    // Others are decided beside it.
    let beside = json!([
        { "entries": [["worker", "one"]], "hits_addend": 600 },
        { "entries": [["rate", "ada"]], "hits_addend": 9 },
    ]);
    let answer = pool.ask(beside).await;
    assert_eq!(answer.overall_code(), Code::OverLimit);
    assert_eq!(pool.reports.look("fleet").await.utilization, Some(0.3), "it is said all the same");
    pool.logged(4, "reports that came with requests were none").await;
}

async fn what_makes_a_report_of_a_request(store: &Store) {
    let mut pool = Pool::open(store).await;
    let entries = json!([["worker", "one"]]);
    let limit = json!({ "requests_per_unit": 5000, "unit": "DAY" });
    for (descriptor, hits_addend, utilization) in [
        // The hits of the whole request, where the descriptor has none of its own.
        (json!({ "entries": entries }), 850, 0.85),
        (json!({ "entries": entries, "hits_addend": 700 }), 850, 0.7),
        // To give back is no report.
        (json!({ "entries": entries, "hits_addend": 100, "is_negative_hits": true }), 0, 0.7),
        // A limit in the request takes the place of rates, not of reports.
        (json!({ "entries": entries, "hits_addend": 600, "limit": limit }), 0, 0.6),
    ] {
        let request =
            json!({ "domain": "fleet", "descriptors": [descriptor], "hits_addend": hits_addend });
        assert_eq!(pool.client.ask(&request).await.unwrap().overall_code(), Code::Ok);
        let seen = pool.reports.look("fleet").await.utilization;
        assert_eq!(seen, Some(utilization), "{request}");
    }
}

async fn reports_ride_on_acquires(store: &Store) {
    let pool = Pool::open(store).await;
    let mut request = acquire("fleet", &[&[["worker", "one"]], &[["rate", "ada"]]]);
    request.descriptors[0].hits_addend = Some(850);
    pool.leases.acquired(request).await;
    let seen = pool.reports.look("fleet").await;
    assert_eq!((seen.utilization, seen.workers), (Some(0.85), 1));
}

async fn acquires_are_drawn_for_as_well(store: &Store) {
    let pool = Pool::open(store).await;
    pool.reports.shed("fleet", 1.0 / 6.0).await;
    let mut acquired = 0;
    for _ in 0..60 {
        let request = acquire("fleet", &[&[["class", "test"]]]);
        acquired += usize::from(pool.leases.is_acquired(request).await);
    }
    // By a chance of a half: not by a chance of one in a million.
    assert!((10..=50).contains(&acquired), "{acquired}");
}

async fn a_worker_may_keep_reporting(store: &Store) {
    let pool = Pool::open(store).await;
    let (reports, mut answers) = pool.reports.stream().await;
    for ratio in [0.1, 0.5, 0.9] {
        reports.send(report("fleet", "one", Load::Ratio(ratio))).await.unwrap();
        let answer = answers.message().await.unwrap().unwrap();
        assert_eq!((answer.utilization, answer.workers), (Some(ratio), 1));
    }
    drop(reports);
    assert_eq!(answers.message().await.unwrap(), None, "the end of both sides");

    let (reports, mut answers) = pool.reports.stream().await;
    reports.send(report("fleet", "one", Load::Ratio(-1.0))).await.unwrap();
    let refused = answers.message().await.unwrap_err();
    assert_eq!(refused.code(), Status::InvalidArgument);
    // What it said before stands.
    assert_eq!(pool.reports.look("fleet").await.utilization, Some(0.9));
}

async fn a_worker_that_does_not_read_is_heard(store: &Store) {
    let pool = Pool::open(store).await;
    let (reports, answers) = pool.reports.stream().await;
    // Far more answers than anybody keeps for it.
    for hundreds in 1..=30 {
        let ratio = f64::from(hundreds) / 10.0;
        for _ in 0..100 {
            reports.send(report("fleet", "one", Load::Ratio(ratio))).await.unwrap();
        }
        until("it is heard", async || {
            (pool.reports.look("fleet").await.utilization == Some(ratio)).then_some(())
        })
        .await;
    }
    drop(answers);
}

async fn a_server_that_leaves_ends_the_streams(store: &Store) {
    let pool = Pool::open(store).await;
    let (reports, mut answers) = pool.reports.stream().await;
    reports.send(report("fleet", "one", Load::Ratio(0.5))).await.unwrap();
    assert!(answers.message().await.unwrap().is_some());
    pool.server.signal("INT").await;
    let left = time::timeout(PATIENCE, answers.message()).await.unwrap();
    assert_eq!(left.unwrap_err().code(), Status::Unavailable);
    assert!(pool.server.ended().await.success());
}

/// How many servers there are, and workers; how many requests of each class each server is asked.
const SERVERS: usize = 4;
const WORKERS: usize = 50;
const REQUESTS: usize = 5_000;

/// How many requests are under way at each server.
const AT_A_TIME: usize = 8;

#[tokio::test]
#[allow(clippy::print_stdout, reason = "how close it came is for whoever wants to know")]
async fn all_replicas_shed_alike() {
    let (redis, files) = (Redis::start().await, TempDir::new());
    let rules = files.file("rules.yaml", RULES);
    let mut servers = Vec::new();
    for _ in 0..SERVERS {
        servers.push(Server::start_with(&rules, &on(&redis)).await);
    }
    // Workers report to any of them.
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let reports = Reports::connect(servers[worker % SERVERS].grpc).await;
        workers.push((format!("worker-{worker}"), reports));
    }
    let all_say = async |ratio: f64| {
        let mut shedding = 0.0;
        for (name, reports) in &workers {
            let load = Load::Ratio(ratio);
            let saying =
                ReportUtilizationRequest { total_slots: 10, ..report("fleet", name, load) };
            shedding = reports.say(saying).await.unwrap().shedding;
        }
        shedding
    };
    // Until some of get is dropped, and no further: then the amount stands still.
    let shedding = until("some is shed", async || {
        while all_say(1.0).await < 0.4 {}
        while all_say(0.0).await > 0.55 {}
        let shedding = all_say(0.75).await;
        (0.4..0.6).contains(&shedding).then_some(shedding)
    })
    .await;
    let seen = workers[0].1.look("fleet").await;
    assert_eq!((seen.workers, seen.utilization), (50, Some(0.75)));

    let mut asking = JoinSet::new();
    let classes = ["test", "get", "post", "critical"];
    for (place, server) in servers.iter().enumerate() {
        for class in classes {
            for _ in 0..AT_A_TIME {
                let mut client = Client::connect(server.grpc).await;
                asking.spawn(async move {
                    let request =
                        json!({ "domain": "fleet", "descriptors": [{ "entries": [["class", class]] }] });
                    let mut dropped = 0;
                    for _ in 0..REQUESTS / AT_A_TIME {
                        let answer = client.ask(&request).await.unwrap();
                        dropped += usize::from(answer.overall_code() == Code::OverLimit);
                    }
                    (place, class, dropped)
                });
            }
        }
    }
    let mut rates: HashMap<(usize, &str), f64> = HashMap::new();
    for (place, class, dropped) in asking.join_all().await {
        *rates.entry((place, class)).or_default() += dropped as f64 / REQUESTS as f64;
    }
    let after = workers[0].1.look("fleet").await.shedding;
    assert_eq!(after, shedding, "it stood still");
    let mut farthest: f64 = 0.0;
    for (class, name) in classes.iter().enumerate() {
        let model = (shedding * 3.0 - class as f64).clamp(0.0, 1.0);
        for place in 0..SERVERS {
            let rate = rates[&(place, *name)];
            let chance = if *name == "critical" { 0.0 } else { model };
            farthest = farthest.max((rate - chance).abs());
            assert!((rate - chance).abs() <= 0.03, "{name} at {place}: {rate} for {chance}");
        }
    }
    println!("at an amount of {shedding}, no rate was farther from the model's than {farthest}");
}
