//! Looks at a Redis before it is used: whether it can serve, and what would be better otherwise.

use super::fault;
use crate::key::{Key, Path};
use redis::{Value, aio::MultiplexedConnection};
use std::collections::HashMap;

/// The oldest version that serves.
const OLDEST: (u32, u32) = (6, 2);

/// What is known of a Redis that can serve: what the operator had better change.
pub(super) type Cautions = Vec<String>;

/// Looks at the Redis behind a connection. Returns what had better be changed, and what it calls this run of itself, where
/// it says so.
///
/// # Errors
///
/// Where it cannot serve, with what to do about it.
pub(super) async fn survey(
    connection: &mut MultiplexedConnection,
) -> Result<(Cautions, Option<String>), String> {
    let info: String = match redis::cmd("INFO").query_async(connection).await {
        Ok(info) => info,
        // Whoever may not ask, or where nobody may, may still decide.
        Err(error) if matches!(fault::code(&error), Some("NOPERM" | "ERR")) => {
            return Ok((vec![], None));
        }
        Err(error) => return Err(fault::in_words(&error)),
    };
    judge(&info)?;
    let mut cautions = Vec::new();
    if let Some(policy) = field(&info, "maxmemory_policy")
        && policy != "noeviction"
    {
        cautions.push(format!(
            "maxmemory-policy is {policy}, so Redis, short of memory, forgets what callers have used; set \
             it to noeviction"
        ));
    }
    const LAZY: &str = "lazyfree-lazy-expire";
    let mut ask = redis::cmd("CONFIG");
    let settings = ask.arg("GET").arg(LAZY).query_async::<HashMap<String, String>>(connection);
    // Hosted ones often have no CONFIG.
    if settings.await.is_ok_and(|settings| settings.get(LAZY).is_some_and(|value| value == "no")) {
        cautions.push(
            "lazyfree-lazy-expire is off, so a large key that expires stalls Redis; set it to yes"
                .to_owned(),
        );
    }
    let run_id = field(&info, "run_id").map(str::trim).filter(|id| !id.is_empty());
    Ok((cautions, run_id.map(str::to_owned)))
}

/// What to change where releases may not be announced.
pub(super) async fn may_announce(connection: &mut MultiplexedConnection) -> Option<String> {
    // A channel on which nobody waits.
    let mut publish = redis::cmd("PUBLISH");
    let asked = publish.arg(Key::new("", &Path::of_domain(b"")).as_str()).arg("");
    let error = asked.query_async::<Value>(connection).await.err()?;
    (fault::code(&error) == Some("NOPERM")).then(|| {
        "this user may not announce releases, so who waits for a lease may wait up to a second longer; \
         allow it &tg1:* +publish +subscribe +unsubscribe"
            .to_owned()
    })
}

/// Whether the Redis that says this of itself can serve.
fn judge(info: &str) -> Result<(), String> {
    // In Valkey's words, or in Redis's.
    let mode = field(info, "server_mode").or_else(|| field(info, "redis_mode"));
    if mode == Some("sentinel") {
        return Err(
            "this is a Sentinel, which keeps no data: give the address of the primary that \
                    it watches"
                .to_owned(),
        );
    }
    if mode == Some("cluster") || field(info, "cluster_enabled") == Some("1") {
        return Err("this is a node of a Redis Cluster, which tollgate cannot use yet: give the \
                    address of a Redis without cluster mode"
            .to_owned());
    }
    let version = field(info, "redis_version").unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    if let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next())
        && (major, minor) < OLDEST
    {
        return Err(fault::too_old(&format!("Redis {version}")));
    }
    if field(info, "role") == Some("slave") {
        let primary = match (field(info, "master_host"), field(info, "master_port")) {
            (Some(host), Some(port)) => format!(", {host}:{port}"),
            _ => String::new(),
        };
        return Err(format!(
            "this is a replica, which cannot be written: give the address of its primary{primary}"
        ));
    }
    Ok(())
}

/// A field of what INFO says.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(fields: &[&str]) -> String {
        let good = ["redis_version:7.0.15", "redis_mode:standalone", "role:master"];
        // What comes first counts.
        let info: Vec<_> = fields.iter().chain(&good).copied().collect();
        judge(&info.join("\r\n")).err().unwrap_or_default()
    }

    #[test]
    fn tells_what_cannot_serve_and_what_to_do() {
        assert_eq!(judged(&[]), "");
        for version in ["6.2.0", "6.2.14", "7.4.1", "8.0.0", "10.1.2"] {
            assert_eq!(judged(&[&format!("redis_version:{version}")]), "", "{version}");
        }
        for version in ["6.0.16", "5.0.14", "2.8.24"] {
            let told = judged(&[&format!("redis_version:{version}")]);
            assert!(told.contains(version) && told.contains("6.2 or later"), "{told}");
        }
        for name in ["redis_mode", "server_mode"] {
            let told = |mode| judged(&[&format!("{name}:{mode}")]);
            assert!(told("sentinel").contains("address of the primary"), "{name}");
            assert!(told("cluster").contains("without cluster mode"), "{name}");
        }
        let replica = ["role:slave", "master_host:10.0.0.1", "master_port:6379"];
        assert!(judged(&replica).ends_with("its primary, 10.0.0.1:6379"));
    }
}
