//! Rules that change while they are served, by every way in which files change.

use crate::{
    grpc::Client,
    support::{
        self, Hold, Leases, Reports, Server, Store, TempDir, acquire, on_every_store, report, until,
    },
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    process::Command,
    signal::unix::{SignalKind, signal},
    time,
};
use tollgate::{
    clock::Clock,
    config,
    decider::{Decider, Modes},
    grpc::proto::tollgate::v1::{LeaseState, report_utilization_request::Load},
    reload::{Reload, ReloadCounts},
    rules::Rules,
    store::{self, Memory},
};

on_every_store! {
    what_was_used_stays_used,
    what_is_in_flight_is_counted_under_a_lower_limit,
    a_stream_goes_on_whatever_becomes_of_its_limit,
    who_waits_is_admitted_as_soon_as_the_limit_is_raised,
}

/// A user may do so much a day.
fn rules(most: u32) -> String {
    format!(
        "domain: shop\ndescriptors:\n  - {{key: user, rate_limit: {{unit: day, requests_per_unit: {most}}}}}\n"
    )
}

/// Replaces a file at one instant, as editors and tools for deployment do.
pub(crate) fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

/// Has a link lead elsewhere, at one instant.
fn lead(link: &Path, to: &Path) {
    let new = link.with_file_name(".new");
    symlink(to, &new).unwrap();
    fs::rename(new, link).unwrap();
}

/// A directory as Kubernetes mounts a ConfigMap: files are links through `..data`, itself a link, which is
/// made to lead to a new directory with new files.
pub(crate) struct ConfigMap {
    pub(crate) mount: PathBuf,
    version: u32,
}

impl ConfigMap {
    pub(crate) fn new(files: &TempDir, texts: &[(&str, &str)]) -> Self {
        let mount = files.path().join("mount");
        fs::create_dir(&mount).unwrap();
        let mut map = Self { mount, version: 0 };
        map.replace(texts);
        for (name, _) in texts {
            symlink(Path::new("..data").join(name), map.mount.join(name)).unwrap();
        }
        map
    }

    pub(crate) fn replace(&mut self, texts: &[(&str, &str)]) {
        let version = |version: u32| format!("..2026_11_21.{version}");
        self.version += 1;
        let directory = self.mount.join(version(self.version));
        fs::create_dir(&directory).unwrap();
        for (name, text) in texts {
            fs::write(directory.join(name), text).unwrap();
        }
        lead(&self.mount.join("..data"), Path::new(&version(self.version)));
        let _ = fs::remove_dir_all(self.mount.join(version(self.version - 1)));
    }
}

/// Waits until rules are in force of which `/rlconfig` shows this.
pub(crate) async fn in_force(server: &Server, text: &str) {
    until(&format!("the rules in force say {text:?}"), async || {
        let rules = support::get(server.admin, "/rlconfig", &[]).await.unwrap().body;
        rules.contains(text).then_some(())
    })
    .await;
}

/// What the probe says; it is ready whatever becomes of the rules.
async fn ready(server: &Server) -> String {
    let response = support::get(server.http, "/ready", &[]).await.unwrap();
    assert_eq!(response.status, 200);
    response.body
}

/// Waits until the rules on disk are refused, for this reason.
async fn refused(server: &Server, reason: &str) -> String {
    until(&format!("the rules on disk are refused: {reason}"), async || {
        let body = ready(server).await;
        body.contains(reason).then_some(body)
    })
    .await
}

/// Waits until nothing is wrong any more.
async fn mended(server: &Server) {
    until("nothing is wrong any more", async || (ready(server).await == "ready\n").then_some(()))
        .await;
}

/// Waits until the log tells of so many reloads, and sees that it tells of no more.
pub(crate) async fn reloaded(server: &Server, times: usize) {
    let told = || server.log().matches("reloaded the rules").count();
    until("the log tells of the reloads", async || (told() >= times).then_some(())).await;
    assert_eq!(told(), times, "{}", server.log());
}

async fn logged(server: &Server, text: &str) {
    until(&format!("the log says {text:?}"), async || server.log().contains(text).then_some(()))
        .await;
}

async fn ask(client: &mut Client, user: &str) -> (Code, u32) {
    let request = json!({ "domain": "shop", "descriptors": [{ "entries": [["user", user]] }] });
    let answer = client.ask(&request).await.unwrap();
    (answer.overall_code(), answer.statuses[0].limit_remaining)
}

async fn what_was_used_stays_used(store: &Store) {
    let files = TempDir::new();
    let path = files.file("shop.yaml", &rules(5));
    let server = Server::start_on(store, &path).await;
    let mut client = Client::connect(server.grpc).await;
    for left in [4, 3, 2] {
        assert_eq!(ask(&mut client, "ada").await, (Code::Ok, left));
    }
    replace(&path, &rules(10));
    in_force(&server, "10 per day").await;
    assert_eq!(ask(&mut client, "ada").await, (Code::Ok, 6));
    replace(&path, &rules(4));
    in_force(&server, " 4 per day").await;
    assert_eq!(ask(&mut client, "ada").await, (Code::OverLimit, 0));
    // A limit that is gone for a while is not forgotten.
    replace(&path, "domain: shop\n");
    until("no limit is left", async || {
        let rules = support::get(server.admin, "/rlconfig", &[]).await.unwrap().body;
        (!rules.contains("per day")).then_some(())
    })
    .await;
    assert_eq!(ask(&mut client, "ada").await.0, Code::Ok);
    replace(&path, &rules(5));
    in_force(&server, " 5 per day").await;
    assert_eq!(ask(&mut client, "ada").await, (Code::Ok, 0));
}

fn in_flight(most: u32) -> String {
    format!(
        "domain: shop\ndescriptors:\n  - {{key: user, concurrency: {{max: {most}, lease_ttl: 60s}}}}\n"
    )
}

async fn open_in_flight(store: &Store, most: u32) -> (Server, Leases, PathBuf, TempDir) {
    let files = TempDir::new();
    let path = files.file("shop.yaml", &in_flight(most));
    let server = Server::start_on(store, &path).await;
    let leases = Leases::connect(server.grpc).await;
    (server, leases, path, files)
}

async fn what_is_in_flight_is_counted_under_a_lower_limit(store: &Store) {
    let (server, leases, path, _files) = open_in_flight(store, 3).await;
    let ada = || acquire("shop", &[&[["user", "ada"]]]);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(leases.acquired(ada()).await);
    }
    replace(&path, &in_flight(1));
    in_force(&server, "concurrency 1").await;
    // Nobody is thrown out, and nobody comes in before there is room.
    for id in held {
        assert_eq!(leases.renewed(&id).await, LeaseState::Live);
        assert!(!leases.is_acquired(ada()).await);
        assert_eq!(leases.released(&id).await, LeaseState::Live);
    }
    assert!(leases.is_acquired(ada()).await);
    assert!(!leases.is_acquired(ada()).await);
}

async fn a_stream_goes_on_whatever_becomes_of_its_limit(store: &Store) {
    let (server, leases, path, _files) = open_in_flight(store, 1).await;
    let ada = || acquire("shop", &[&[["user", "ada"]]]);
    let mut short = ada();
    short.ttl = support::span(Duration::from_secs(3));
    let mut hold: Hold = leases.hold(short).await;
    assert!(!hold.acquired().await.lease_id.is_empty());
    replace(&path, "domain: shop\ndescriptors:\n  - {key: other, concurrency: {max: 1}}\n");
    in_force(&server, "shop:other").await;
    for _ in 0..2 {
        assert_eq!(hold.renewed().await, LeaseState::Live);
    }
    // It still holds what it held.
    replace(&path, &in_flight(1));
    in_force(&server, "concurrency 1").await;
    assert_eq!(hold.renewed().await, LeaseState::Live);
    assert!(!leases.is_acquired(ada()).await);
    drop(hold);
    until("the slot is free", async || leases.is_acquired(ada()).await.then_some(())).await;
}

async fn who_waits_is_admitted_as_soon_as_the_limit_is_raised(store: &Store) {
    let (_server, leases, path, _files) = open_in_flight(store, 1).await;
    let ada = || acquire("shop", &[&[["user", "ada"]]]);
    leases.acquired(ada()).await;
    let mut patient = ada();
    patient.wait = support::span(Duration::from_secs(60));
    let waiting = {
        let leases = leases.clone();
        tokio::spawn(async move { leases.acquired(patient).await })
    };
    replace(&path, &in_flight(2));
    waiting.await.unwrap();
    assert!(!leases.is_acquired(ada()).await);
}

#[tokio::test]
async fn a_file_is_reloaded_however_it_is_changed() {
    let files = TempDir::new();
    // A link in the middle of the path, a link at its end, and the file.
    let releases = files.path().join("releases");
    for release in ["1", "2"] {
        fs::create_dir_all(releases.join(release)).unwrap();
        fs::write(releases.join(release).join("real.yaml"), rules(100)).unwrap();
        symlink("real.yaml", releases.join(release).join("shop.yaml")).unwrap();
    }
    let current = files.path().join("current");
    symlink("releases/1", &current).unwrap();
    let (real, path) = (current.join("real.yaml"), current.join("shop.yaml"));
    let server = Server::start(&path).await;

    let written = |most| fs::write(&real, rules(most)).unwrap();
    let replaced = |most| replace(&real, &rules(most));
    let deleted_and_made = |most| {
        fs::remove_file(&real).unwrap();
        fs::write(&real, rules(most)).unwrap();
    };
    let led_elsewhere = |most| {
        fs::write(current.join(format!("{most}.yaml")), rules(most)).unwrap();
        lead(&path, Path::new(&format!("{most}.yaml")));
    };
    let path_led_elsewhere = |most| {
        replace(&releases.join("2/shop.yaml"), &rules(most));
        lead(&current, Path::new("releases/2"));
    };
    let link_replaced_by_file = |most| replace(&path, &rules(most));
    let changes: [&dyn Fn(u32); 6] = [
        &written,
        &replaced,
        &deleted_and_made,
        &led_elsewhere,
        &path_led_elsewhere,
        &link_replaced_by_file,
    ];
    for (most, change) in (200..).zip(changes) {
        change(most);
        in_force(&server, &format!("{most} per day")).await;
        mended(&server).await;
    }
    reloaded(&server, changes.len()).await;
}

#[tokio::test]
async fn a_directory_is_reloaded_however_it_is_changed() {
    let files = TempDir::new();
    let directory = files.path().join("rules");
    let fill = |directory: &Path, most: u32| {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("shop.yaml"), rules(most)).unwrap();
    };
    fill(&directory, 100);
    let far = TempDir::new();
    let elsewhere = far.file("elsewhere", &rules(100));
    let link = files.path().join("link");
    symlink("rules", &link).unwrap();
    let server = Server::start(&link).await;

    let file_replaced = |most| replace(&directory.join("shop.yaml"), &rules(most));
    let file_added = |most| {
        let text = rules(most).replace("shop", "mall");
        fs::write(directory.join("mall.yaml"), text).unwrap();
    };
    let file_renamed_and_removed = |most| {
        fs::rename(directory.join("mall.yaml"), directory.join("gone.not")).unwrap();
        fs::write(directory.join("shop.yaml"), rules(most)).unwrap();
    };
    let directory_made_anew = |most| {
        fs::remove_dir_all(&directory).unwrap();
        fill(&directory, most);
    };
    let directory_replaced = |most| {
        fill(&files.path().join("new"), most);
        fs::rename(&directory, files.path().join("old")).unwrap();
        fs::rename(files.path().join("new"), &directory).unwrap();
    };
    let led_elsewhere = |most| {
        fill(&files.path().join("other"), most);
        lead(&link, Path::new("other"));
    };
    // From here on nothing that is watched changes: these are seen because somebody looks.
    let file_a_link = |most| {
        fs::write(&elsewhere, rules(most)).unwrap();
        lead(&link.join("shop.yaml"), &elsewhere);
    };
    let written_elsewhere = |most| fs::write(&elsewhere, rules(most)).unwrap();
    let changes: [&dyn Fn(u32); 8] = [
        &file_replaced,
        &file_added,
        &file_renamed_and_removed,
        &directory_made_anew,
        &directory_replaced,
        &led_elsewhere,
        &file_a_link,
        &written_elsewhere,
    ];
    for (most, change) in (200..).zip(changes) {
        change(most);
        in_force(&server, &format!("{most} per day")).await;
        mended(&server).await;
    }
    reloaded(&server, changes.len()).await;
    logged(&server, "2 limits in 2 domains (new: mall)").await;
    logged(&server, "1 limit in 1 domain (changed: shop; gone: mall)").await;
}

#[tokio::test]
async fn a_config_map_is_reloaded_as_a_whole() {
    let files = TempDir::new();
    let mall = |most| rules(most).replace("shop", "mall");
    let (a, b) = (rules(100), mall(100));
    let mut map = ConfigMap::new(&files, &[("a.yaml", &a), ("b.yaml", &b)]);
    let server = Server::start(&map.mount).await;
    for most in 200..205 {
        map.replace(&[("a.yaml", &rules(most)), ("b.yaml", &mall(most))]);
        in_force(&server, &format!("{most} per day")).await;
        let both = support::get(server.admin, "/rlconfig", &[]).await.unwrap().body;
        assert_eq!(both.matches(&format!("{most} per day")).count(), 2, "{both}");
    }
    reloaded(&server, 5).await;
    let log = server.log();
    assert_eq!(log.matches("2 limits in 2 domains (changed: shop, mall)").count(), 5, "{log}");
}

#[tokio::test]
async fn rules_that_are_not_valid_are_refused_with_every_error_and_the_old_ones_serve_on() {
    let files = TempDir::new();
    let (one, two) = (files.file("1.yaml", &rules(5)), files.file("2.yaml", "domain: mall\n"));
    let server = Server::start(files.path()).await;
    let mut client = Client::connect(server.grpc).await;
    assert_eq!(ask(&mut client, "ada").await, (Code::Ok, 4));

    let mistaken = rules(10).replace("unit: day", "unit: fortnight");
    replace(&one, &mistaken);
    refused(&server, "fortnight").await;
    replace(&two, "domain: mall\ndescriptor: []\n");
    let body = refused(&server, "`descriptor`").await;
    let head = "ready\nthe rules on disk are not valid, so those loaded ";
    assert!(body.starts_with(head) && body.contains(" ago serve on:\nerror: "), "{body}");
    for place in ["1.yaml:3:36", "2.yaml:2:1"] {
        assert!(body.contains(place), "{place} in {body}");
        logged(&server, place).await;
    }
    assert_eq!(body.matches("= help: ").count(), 2, "{body}");
    assert_eq!(server.log().matches("ERROR").count(), 2, "one entry each time: {}", server.log());
    assert_eq!(ask(&mut client, "ada").await, (Code::Ok, 3));

    replace(&two, "domain: mall\n");
    replace(&one, &rules(10));
    in_force(&server, "10 per day").await;
    mended(&server).await;
    logged(&server, "reloaded the rules, which are valid again").await;
    assert_eq!(ask(&mut client, "ada").await, (Code::Ok, 7));

    // The same as before they were broken.
    replace(&one, &mistaken);
    refused(&server, "fortnight").await;
    replace(&one, &rules(10));
    mended(&server).await;
    logged(&server, "(none of them changed)").await;
}

#[tokio::test]
async fn nothing_is_ever_put_in_force_because_a_mount_blinks() {
    let files = TempDir::new();
    let directory = files.path().join("rules");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("shop.yaml"), rules(5)).unwrap();
    let server = Server::start(&directory).await;
    let mut client = Client::connect(server.grpc).await;

    fs::rename(directory.join("shop.yaml"), directory.join("shop.not")).unwrap();
    refused(&server, "no rule files in the directory").await;
    assert_eq!(ask(&mut client, "ada").await, (Code::Ok, 4));
    fs::rename(&directory, files.path().join("gone")).unwrap();
    refused(&server, "cannot read").await;
    assert_eq!(ask(&mut client, "ada").await, (Code::Ok, 3));
    fs::rename(files.path().join("gone"), &directory).unwrap();
    refused(&server, "no rule files in the directory").await;
    fs::write(directory.join("shop.yaml"), rules(7)).unwrap();
    in_force(&server, "7 per day").await;
    mended(&server).await;
    assert_eq!(ask(&mut client, "ada").await, (Code::Ok, 4));
}

#[tokio::test]
async fn what_is_half_written_is_not_taken() {
    let files = TempDir::new();
    let path = files.file("shop.yaml", &rules(5));
    let server = Server::start(&path).await;
    let whole = rules(7);
    // Long pauses after each piece: each is looked at, and none is valid.
    fs::write(&path, "").unwrap();
    refused(&server, "`domain` is missing").await;
    fs::write(&path, &whole[..whole.len() - 4]).unwrap();
    refused(&server, "error: ").await;
    in_force(&server, " 5 per day").await;
    fs::write(&path, &whole).unwrap();
    in_force(&server, " 7 per day").await;
    mended(&server).await;
    reloaded(&server, 1).await;
}

#[tokio::test]
async fn half_of_a_directory_is_not_taken_where_it_is_not_valid() {
    let files = TempDir::new();
    // A domain in two files: the limits of one are on the pool of the other.
    let pool = |slots| format!("domain: shop\npools:\n  api: {{capacity: {slots}}}\n");
    let limit =
        |key| format!("domain: shop\ndescriptors:\n  - {{key: {key}, fleet: {{pool: api}}}}\n");
    let (one, two) = (files.file("1.yaml", &pool(5)), files.file("2.yaml", &limit("old")));
    let server = Server::start_with(files.path(), &[("MERGE_DOMAIN_CONFIG", "true")]).await;
    in_force(&server, "shop:old").await;
    fs::remove_file(&one).unwrap();
    refused(&server, "2.yaml").await;
    in_force(&server, "shop:old").await;
    replace(&two, &limit("new"));
    refused(&server, "key: new").await;
    in_force(&server, "shop:old").await;
    replace(&one, &pool(6));
    in_force(&server, "shop:new").await;
    mended(&server).await;
    reloaded(&server, 1).await;
}

#[tokio::test]
async fn warnings_about_rules_in_force_are_logged() {
    let files = TempDir::new();
    let path = files.file("shop.yaml", &rules(5));
    let server = Server::start(&path).await;
    replace(&path, &rules(0));
    logged(&server, "the rules in force are valid, but:").await;
    logged(&server, "shop.yaml:3:").await;
    in_force(&server, "0 per day").await;
    assert_eq!(ready(&server).await, "ready\n");
}

#[tokio::test]
async fn who_sends_a_hangup_is_told_what_is_on_disk() {
    let files = TempDir::new();
    let path = files.file("shop.yaml", &rules(5));
    let server = Server::start(&path).await;
    server.signal("HUP").await;
    logged(&server, "told to reload, but the rules are unchanged").await;
    replace(&path, "nonsense");
    refused(&server, "nonsense").await;
    server.signal("HUP").await;
    logged(&server, "told to reload, but nothing has changed: the rules on disk are not valid")
        .await;
    replace(&path, &rules(6));
    server.signal("HUP").await;
    in_force(&server, "6 per day").await;
    reloaded(&server, 1).await;
}

#[tokio::test]
async fn files_that_change_together_are_loaded_together() {
    let files = TempDir::new();
    let mall = |most| rules(most).replace("shop", "mall");
    let (one, two) = (files.file("1.yaml", &rules(100)), files.file("2.yaml", &mall(100)));
    let server = Server::start(files.path()).await;
    // Longer than a rest after a look, shorter than files must stand still. A busy machine may take a longer
    // break in between; not each time.
    for most in 200..210 {
        replace(&one, &rules(most));
        time::sleep(Duration::from_millis(70)).await;
        replace(&two, &mall(most));
        in_force(&server, &format!("{most} per day   mall:user")).await;
        if server.log().contains("(changed: shop, mall)") {
            return;
        }
    }
    panic!("{}", server.log());
}

#[tokio::test]
async fn who_writes_all_the_time_does_not_keep_it_out_of_force() {
    let files = TempDir::new();
    let path = files.file("shop.yaml", &rules(100));
    let server = Server::start(&path).await;
    let writing = tokio::spawn(async move {
        for most in 200.. {
            replace(&path, &rules(most));
            time::sleep(Duration::from_millis(20)).await;
        }
    });
    for _ in 0..3 {
        let reloads = || server.log().matches("reloaded the rules").count();
        let before = reloads();
        let is_loaded = async || (reloads() > before).then_some(());
        until("something of it is in force", is_loaded).await;
    }
    writing.abort();
}

#[tokio::test]
async fn reloads_are_counted_and_what_was_replaced_is_freed() {
    let files = TempDir::new();
    let path = files.file("shop.yaml", &rules(5));
    let (paths, options) = (vec![path.clone()], config::Options::default());
    let read = config::read(&paths);
    let digest = read.digest();
    let rules_of = Rules::new(read.understand(&options).domains);
    let store = store::Store::Memory(Memory::new(1000));
    let decider = Decider::new(rules_of, store, Clock::monotonic(), Modes::default());
    let old = Arc::downgrade(&decider.rules());
    let reload = Reload::new(paths, options, digest, Arc::clone(&decider));
    let reloads = reload.reloads();
    let running = tokio::spawn(reload.run(signal(SignalKind::hangup()).unwrap()));

    let counted = async |loaded, refused| {
        until("it is counted", async || {
            (reloads.condition().counts == ReloadCounts { loaded, refused }).then_some(())
        })
        .await;
    };
    replace(&path, &rules(6));
    counted(1, 0).await;
    until("the old rules are freed", async || old.upgrade().is_none().then_some(())).await;
    assert_eq!((&reloads.condition().refusal, reloads.in_words()), (&None, None));
    replace(&path, "nonsense");
    counted(1, 1).await;
    assert!(reloads.condition().refusal.as_ref().unwrap().contains("nonsense"));
    replace(&path, "other nonsense");
    counted(1, 2).await;
    replace(&path, &rules(7));
    counted(2, 2).await;
    assert_eq!(reloads.in_words(), None);
    running.abort();
}

async fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().await.unwrap().success());
}

#[tokio::test]
async fn a_pipe_in_the_place_of_rules_hangs_nothing() {
    let files = TempDir::new();
    let directory = files.path().join("rules");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("shop.yaml"), rules(5)).unwrap();
    make_pipe(&directory.join("pipe.yaml")).await;
    let lone = files.file("lone.yaml", &rules(5).replace("shop", "mall"));
    let paths = format!("{}:{}", directory.display(), lone.display());
    let settings = [("TOLLGATE_CONFIG", paths.as_str()), ("TOLLGATE_DRAIN", "0")];
    let server = Server::start_from_environment(&settings).await;

    replace(&directory.join("shop.yaml"), &rules(6));
    in_force(&server, "6 per day").await;
    fs::remove_file(&lone).unwrap();
    make_pipe(&lone).await;
    refused(&server, "is neither a file nor a directory").await;
    replace(&lone, &rules(7).replace("shop", "mall"));
    in_force(&server, "7 per day").await;
    mended(&server).await;
    server.signal("TERM").await;
    assert!(server.ended().await.success());
}

#[tokio::test]
async fn rules_from_a_pipe_are_served_but_not_reloaded() {
    let files = TempDir::new();
    let pipe = files.path().join("pipe");
    make_pipe(&pipe).await;
    let writer = pipe.clone();
    let writing = tokio::task::spawn_blocking(move || fs::write(writer, rules(5)).unwrap());
    let server = Server::start(&pipe).await;
    writing.await.unwrap();
    logged(&server, "the rules cannot be reloaded").await;
    server.signal("HUP").await;
    in_force(&server, "5 per day").await;
}

#[tokio::test]
async fn the_first_pool_that_a_reload_brings_is_watched() {
    let files = TempDir::new();
    let path = files.file("shop.yaml", &rules(5));
    let server = Server::start(&path).await;
    let reports = Reports::connect(server.grpc).await;
    let say = async || reports.say(report("shop", "web-1", Load::Ratio(0.5))).await;
    assert!(say().await.is_err(), "there is no pool yet");
    let pools = "pools:\n  api: {capacity: 5, utilization: {report_ttl: 8s}}\n";
    replace(&path, &format!("{}{pools}", rules(5)));
    until("the pool takes reports", async || say().await.ok()).await;
    let shown = support::get(server.admin, "/pools", &[]).await.unwrap().body;
    assert!(shown.contains("50 % busy"), "{shown}");
    // Whoever was heard is missed.
    logged(&server, "no worker's report is fresh").await;
    // It goes, and so does what is known of it.
    replace(&path, &rules(6));
    in_force(&server, "6 per day").await;
    assert!(say().await.is_err());
    let shown = support::get(server.admin, "/pools", &[]).await.unwrap().body;
    assert!(shown.starts_with("There are no pools"), "{shown}");
}
