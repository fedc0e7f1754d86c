//! Looks at a Redis before it is used: whether it can serve, and what would be better otherwise.

use redis::{ErrorKind, RedisError, ServerErrorKind, aio::MultiplexedConnection};
use std::collections::HashMap;

/// The oldest version that serves.
const OLDEST: (u32, u32) = (6, 2);

/// What is known of a Redis that can serve: what the operator had better change.
pub(super) type Cautions = Vec<String>;

/// Looks at the Redis behind a connection.
///
/// # Errors
///
/// Where it cannot serve, with what to do about it.
pub(super) async fn survey(connection: &mut MultiplexedConnection) -> Result<Cautions, String> {
    let info: String = match redis::cmd("INFO").query_async(connection).await {
        Ok(info) => info,
        // Whoever may not ask, may still decide.
        Err(error) if is_forbidden(&error) => return Ok(vec![]),
        Err(error) => return Err(in_words(&error)),
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
    Ok(cautions)
}

/// Whether the Redis that says this of itself can serve.
fn judge(info: &str) -> Result<(), String> {
    if field(info, "redis_mode") == Some("sentinel") {
        return Err(
            "this is a Sentinel, which keeps no data: give the address of the primary that \
                    it watches"
                .to_owned(),
        );
    }
    if field(info, "redis_mode") == Some("cluster") || field(info, "cluster_enabled") == Some("1") {
        return Err("this is a node of a Redis Cluster, which tollgate cannot use yet: give the \
                    address of a Redis without cluster mode"
            .to_owned());
    }
    let version = field(info, "redis_version").unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    if let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next())
        && (major, minor) < OLDEST
    {
        return Err(too_old(&format!("Redis {version}")));
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

fn too_old(what: &str) -> String {
    format!("{what} is too old: tollgate needs Redis 6.2 or later, or Valkey")
}

/// A field of what INFO says.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

fn is_forbidden(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
}

/// Why Redis cannot be used, for people.
pub(super) fn in_words(error: &RedisError) -> String {
    if error.kind() == ErrorKind::RESP3NotSupported {
        return too_old("this Redis");
    }
    let detail = error.detail().unwrap_or_default();
    match error.code() {
        Some("NOAUTH") => "it asks for a password: set TOLLGATE_STORE_PASSWORD".to_owned(),
        Some("WRONGPASS") => {
            "it does not accept the user and the password: check those in --store and \
                              TOLLGATE_STORE_PASSWORD"
                .to_owned()
        }
        Some("NOPERM") => {
            format!("its ACL does not allow it ({detail}): docs/redis.md lists what tollgate needs")
        }
        Some("LOADING") => "it is loading its data".to_owned(),
        Some(code) => in_script(error).map_or_else(|| format!("{code} {detail}"), str::to_owned),
        None => error.to_string(),
    }
}

/// What a command met that a script called, as Redis before 7 tells it: at the end of an error of its own,
/// behind the place in the script. Since then the command's error is the script's.
pub(super) fn in_script(error: &RedisError) -> Option<&str> {
    let detail = error.detail()?.strip_prefix("Error running script")?;
    detail.split_once(": -").map(|(_, met)| met)
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
    fn tells_what_a_script_met_in_whichever_form_redis_has_for_it() {
        let told = |line: &str| {
            let reply = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
            let redis::Value::ServerError(error) = reply else { panic!("{reply:?}") };
            in_words(&error.into())
        };
        let oom = "OOM command not allowed when used memory > 'maxmemory'.";
        let place = "(call to f_0c3c): @user_script:155: @user_script: 155:";
        assert_eq!(told(&format!("ERR Error running script {place} -{oom}")), oom);
        let since_7 = format!("{oom} script: 0c3c, on @user_script:155.");
        assert_eq!(told(&since_7), since_7);
        assert_eq!(told("ERR unknown command"), "ERR unknown command");
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
        assert!(judged(&["redis_mode:sentinel"]).contains("address of the primary"));
        assert!(judged(&["redis_mode:cluster"]).contains("without cluster mode"));
        let replica = ["role:slave", "master_host:10.0.0.1", "master_port:6379"];
        assert!(judged(&replica).ends_with("its primary, 10.0.0.1:6379"));
    }
}
