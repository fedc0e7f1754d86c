//! What operators copy from `deploy/` is valid by the judgement of those who read it, and fits the program.

mod prometheus;

use crate::support::{self, TempDir, yaml};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    str,
};

/// Where in the Deployment its pods, and their container, are.
const POD: &str = "/spec/template/spec";
const CONTAINER: &str = "/spec/template/spec/containers/0";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The manifests, as paths in the repository.
fn manifests() -> Vec<String> {
    let files = fs::read_dir(repository().join("deploy/kubernetes")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut paths: Vec<_> = names.map(|name| format!("deploy/kubernetes/{name}")).collect();
    paths.sort();
    assert!(paths.iter().all(|path| path.ends_with(".yaml")), "{paths:?}");
    paths
}

/// The one manifest of a kind.
fn manifest(kind: &str) -> Value {
    let mut found = manifests().into_iter().map(|path| yaml(&path)).filter(|it| it["kind"] == kind);
    let manifest = found.next().unwrap_or_else(|| panic!("there is no {kind}"));
    assert!(found.next().is_none(), "there are two of {kind}");
    manifest
}

fn at<'a>(manifest: &'a Value, place: &str) -> &'a Value {
    manifest.pointer(place).unwrap_or_else(|| panic!("the manifest lacks {place}"))
}

/// What the Deployment sets in the program's environment, as far as it says it itself.
fn environment(deployment: &Value) -> Vec<(&str, Option<&str>)> {
    let variables = at(deployment, &format!("{CONTAINER}/env")).as_array().unwrap();
    variables.iter().map(|it| (it["name"].as_str().unwrap(), it["value"].as_str())).collect()
}

fn promtool(arguments: &[&str]) -> Output {
    let output = Command::new("promtool")
        .args(arguments)
        .current_dir(repository().join("deploy/prometheus"))
        .output();
    output.expect("promtool is not installed: scripts/prepare does it")
}

fn assert_succeeded(output: &Output) {
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{said}");
}

#[test]
fn kubernetes_knows_every_key_of_the_manifests() {
    let program = repository().join("target/kubernetes/bin/kubernetes-validate");
    let validate = |paths: &[PathBuf]| {
        let output = Command::new(&program).arg("--strict").args(paths).output();
        output.unwrap_or_else(|error| panic!("{}: {error}: run scripts/prepare", program.display()))
    };
    let paths: Vec<_> = manifests().iter().map(|path| repository().join(path)).collect();
    assert_succeeded(&validate(&paths));

    let deployment = fs::read_to_string(repository().join("deploy/kubernetes/deployment.yaml"));
    let misspelled = deployment.unwrap().replacen("readinessProbe", "readynessProbe", 1);
    let files = TempDir::new();
    let output = validate(&[files.file("deployment.yaml", &misspelled)]);
    assert!(!output.status.success(), "who is asked knows the keys");
}

#[test]
fn prometheus_takes_the_alerts_and_the_scrape_job() {
    assert_succeeded(&promtool(&["check", "config", "--lint-fatal", "scrape.yaml"]));
}

#[test]
fn each_alert_fires_when_it_should_and_is_silent_when_not() {
    assert_succeeded(&promtool(&["test", "rules", "alerts_test.yaml"]));
}

#[test]
fn each_alert_says_how_bad_it_is_what_it_means_and_is_tested() {
    let tests =
        fs::read_to_string(repository().join("deploy/prometheus/alerts_test.yaml")).unwrap();
    let alerts = yaml("deploy/prometheus/alerts.yaml");
    let rules = alerts["groups"][0]["rules"].as_array().unwrap();
    let mut alerts = rules.iter().filter(|rule| rule["alert"].is_string()).peekable();
    assert!(alerts.peek().is_some());
    for alert in alerts {
        let name = alert["alert"].as_str().unwrap();
        let severity = alert["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("critical" | "warning")), "{name}: {severity:?}");
        for text in ["summary", "description"] {
            assert!(alert["annotations"][text].is_string(), "{name} has no {text}");
        }
        assert!(tests.contains(&format!("alertname=\"{name}\"")), "{name} never fires in a test");
    }
}

#[test]
fn the_manifests_run_the_image_as_it_was_built() {
    let deployment = manifest("Deployment");
    let dockerfile = fs::read_to_string(repository().join("Dockerfile")).unwrap();
    let instruction = |name: &str| {
        let mut found = dockerfile.lines().filter_map(|line| line.strip_prefix(name));
        found
            .next_back()
            .unwrap_or_else(|| panic!("the Dockerfile has no {name}"))
            .trim()
            .to_owned()
    };
    let image = at(&deployment, &format!("{CONTAINER}/image"));
    assert_eq!(image, &format!("tollgate:{}", env!("CARGO_PKG_VERSION")));

    let security = at(&deployment, &format!("{POD}/securityContext"));
    let user = format!("{}:{}", security["runAsUser"], security["runAsGroup"]);
    assert_eq!(instruction("USER"), user);

    let mount = at(&deployment, &format!("{CONTAINER}/volumeMounts/0/mountPath")).as_str().unwrap();
    assert!(instruction("CMD").contains(&format!("\"{mount}\"")), "rules are read from {mount}");
    let volume = at(&deployment, &format!("{POD}/volumes/0/configMap/name"));
    assert_eq!(volume, at(&manifest("ConfigMap"), "/metadata/name"));

    let ports = at(&deployment, &format!("{CONTAINER}/ports")).as_array().unwrap();
    let numbers = ports.iter().map(|port| port["containerPort"].to_string()).collect::<Vec<_>>();
    assert_eq!(instruction("EXPOSE"), numbers.join(" "));
    let scraped = at(&deployment, "/spec/template/metadata/annotations/prometheus.io~1port");
    assert_eq!(scraped.as_str(), Some(numbers[1].as_str()));
}

#[test]
fn the_manifests_mean_the_same_pods_and_ports() {
    let deployment = manifest("Deployment");
    let labels = at(&deployment, "/spec/template/metadata/labels");
    let ports = at(&deployment, &format!("{CONTAINER}/ports")).as_array().unwrap();
    let is_port = |name: &Value| ports.iter().any(|port| port["name"] == *name);

    let service = manifest("Service");
    assert_eq!(at(&service, "/spec/selector"), labels);
    for port in at(&service, "/spec/ports").as_array().unwrap() {
        assert!(is_port(&port["targetPort"]), "{port}");
        let target = ports.iter().find(|it| it["name"] == port["targetPort"]).unwrap();
        // A headless Service translates no ports.
        assert_eq!(port["port"], target["containerPort"]);
    }
    for (kind, selector) in [
        ("Deployment", "/spec/selector/matchLabels"),
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
    ] {
        assert_eq!(at(&manifest(kind), selector), labels, "{kind}");
    }
    for rule in at(&manifest("NetworkPolicy"), "/spec/ingress").as_array().unwrap() {
        assert!(rule["ports"].as_array().unwrap().iter().all(|port| is_port(&port["port"])));
    }
    for probe in ["livenessProbe", "readinessProbe"] {
        assert!(is_port(at(&deployment, &format!("{CONTAINER}/{probe}/httpGet/port"))));
    }

    let monitor = yaml("deploy/prometheus/servicemonitor.yaml");
    assert_eq!(at(&monitor, "/spec/selector/matchLabels"), at(&service, "/metadata/labels"));
    assert!(is_port(at(&monitor, "/spec/endpoints/0/port")));
    let scrape = yaml("deploy/prometheus/scrape.yaml");
    let job = &scrape["scrape_configs"][0];
    assert_eq!(job["job_name"], service["metadata"]["name"], "the operator calls the job so, too");
    assert!(port_numbers(&service).contains(&job["dns_sd_configs"][0]["port"]));
}

fn port_numbers(service: &Value) -> Vec<Value> {
    let ports = at(service, "/spec/ports").as_array().unwrap();
    ports.iter().map(|port| port["port"].clone()).collect()
}

#[tokio::test]
async fn the_manifests_set_what_the_program_knows_and_give_it_time_to_leave() {
    let deployment = manifest("Deployment");
    let help = support::run(&["serve", "--help"], &[]).await.stdout;
    let help = str::from_utf8(&help).unwrap();
    let environment = environment(&deployment);
    for (name, _) in &environment {
        // Of those that may hold a password the value is not shown.
        let is_known = ["=", "]"].iter().any(|end| help.contains(&format!("[env: {name}{end}")));
        assert!(is_known, "{name} means nothing to tollgate");
    }
    let drain = environment.iter().find(|(name, _)| *name == "TOLLGATE_DRAIN").unwrap().1.unwrap();
    let drain: u64 = drain.trim_end_matches('s').parse().unwrap();
    let grace = at(&deployment, &format!("{POD}/terminationGracePeriodSeconds")).as_u64().unwrap();
    assert!(grace >= drain + 11, "docs/operating.md: a drain of {drain} s wants more than {grace}");
    let probe = at(&deployment, &format!("{CONTAINER}/readinessProbe"));
    let noticed =
        probe["periodSeconds"].as_u64().unwrap() * probe["failureThreshold"].as_u64().unwrap();
    assert!(noticed < drain, "it is noticed to leave after {noticed} s");
}

#[tokio::test]
async fn the_rules_of_the_manifests_are_valid() {
    let files = TempDir::new();
    for (name, text) in at(&manifest("ConfigMap"), "/data").as_object().unwrap() {
        files.file(name, text.as_str().unwrap());
    }
    let checked = support::run(&["check", files.path().to_str().unwrap()], &[]).await;
    assert_succeeded(&checked);
    assert!(checked.stderr.is_empty(), "nor is there a warning: {checked:?}");
}

#[test]
fn no_panel_of_the_dashboard_covers_another_and_each_explains_itself() {
    let text = fs::read_to_string(repository().join("deploy/grafana/tollgate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut taken = Vec::new();
    for (place, panel) in panels.iter().enumerate() {
        let title = panel["title"].as_str().unwrap();
        assert!(panels[..place].iter().all(|other| other["id"] != panel["id"]), "{title}: its id");
        let grid = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        let (left, top, width, height) = (grid("x"), grid("y"), grid("w"), grid("h"));
        assert!(left + width <= 24, "{title} is too far to the right");
        for cell in (left..left + width).flat_map(|x| (top..top + height).map(move |y| (x, y))) {
            assert!(!taken.contains(&cell), "{title} covers another panel");
            taken.push(cell);
        }
        if panel["type"] != "row" {
            assert!(panel["description"].is_string(), "{title} does not say what it shows");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}
