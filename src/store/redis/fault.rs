//! What is wrong with a Redis, in words: the fault, and what to do about it.

use redis::{ErrorKind, RedisError};
use rustls::{AlertDescription, CertificateError};
use std::{error::Error as _, io, sync::Arc};

/// What to do about a version that lacks what the script needs.
pub(super) fn too_old(what: &str) -> String {
    format!("{what} is too old: tollgate needs Redis 6.2 or later, or Valkey")
}

/// Why there is no connection.
pub(super) fn of_connecting(error: &RedisError, is_tls: bool) -> String {
    if let Some(error) = tls_error(error) {
        return of_tls(error);
    }
    match error.kind() {
        ErrorKind::RESP3NotSupported => too_old("this Redis"),
        ErrorKind::Parse => "what answers there is no Redis".to_owned(),
        ErrorKind::Io if error.is_connection_dropped() && !error.is_connection_refusal() => {
            let reason = if is_tls {
                "as where it wants a certificate, which is given with --store-cert and --store-key"
            } else {
                "as where it expects TLS, for which write rediss://, or is in protected mode"
            };
            format!("it hangs up, {reason} ({error})")
        }
        _ => in_words(error),
    }
}

/// Why there is no connection in time.
pub(super) fn of_silence(is_tls: bool) -> &'static str {
    if is_tls {
        "it does not answer; where it does not speak TLS, write redis://"
    } else {
        "it does not answer"
    }
}

/// What speaks TLS, and fails.
fn tls_error(error: &RedisError) -> Option<&rustls::Error> {
    let cause = error.source()?.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>()?;
    cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

fn of_tls(error: &rustls::Error) -> String {
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage};
    match error {
        InvalidCertificate(CertificateError::UnknownIssuer) => {
            "nobody who is trusted has signed its certificate: say who has with --store-ca".into()
        }
        InvalidCertificate(_) => format!("its certificate does not serve: {error}"),
        AlertReceived(AlertDescription::CertificateRequired) => {
            "it wants a certificate: give --store-cert and --store-key".to_owned()
        }
        AlertReceived(_) => format!(
            "it does not accept the connection, as where --store-cert is not one that it trusts \
             ({error})"
        ),
        InvalidMessage(_) => "it does not speak TLS: write redis://".to_owned(),
        _ => format!("TLS fails: {error}"),
    }
}

/// What its answer means.
pub(super) fn in_words(error: &RedisError) -> String {
    let Some((code, detail)) = answer(error) else { return error.to_string() };
    match code {
        "NOAUTH" => "it asks for a password: set TOLLGATE_STORE_PASSWORD".to_owned(),
        "WRONGPASS" => "it does not accept the user and the password: check those in --store and \
             TOLLGATE_STORE_PASSWORD"
            .to_owned(),
        "LOADING" => "it is loading its data".to_owned(),
        "OOM" => format!("{code} {detail}: raise that, or find what else takes it"),
        _ if detail.contains("DB index") => "it has no database of --store's number".to_owned(),
        _ if code == "NOPERM" || detail.contains("permission") || detail.contains("can't run") => {
            format!("its ACL forbids what tollgate needs, which docs/redis.md lists: {detail}")
        }
        _ => format!("{code} {detail}"),
    }
}

/// The code of an answer that is an error, also where a script has met it.
pub(super) fn code(error: &RedisError) -> Option<&str> {
    answer(error).map(|(code, _)| code)
}

/// The code and the words of an answer that is an error; not where in a script, and nothing that a
/// caller has sent.
fn answer(error: &RedisError) -> Option<(&str, &str)> {
    let code = error.code()?;
    let detail = error.detail().unwrap_or_default();
    // Redis before 7 wraps what a script has met.
    let (code, detail) = match detail.split_once("): @user_script:") {
        Some((_, met)) => {
            let met = met.splitn(4, ": ").last().unwrap_or_default();
            let coded = met.strip_prefix('-').and_then(|met| met.split_once(' '));
            coded.unwrap_or((code, met))
        }
        None => (code, detail),
    };
    let detail = match detail.rsplit_once(" script: ") {
        Some((detail, place)) if place.contains("@user_script") => detail,
        _ => detail,
    };
    let (detail, _sent) = detail.split_once(", with args").unwrap_or((detail, ""));
    Some((code, detail.trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;

    /// What an answer of Redis means, in words.
    fn told(answer: &str) -> String {
        let reply = redis::parse_redis_value(format!("-{answer}\r\n").as_bytes()).unwrap();
        let Value::ServerError(error) = reply else { panic!("{reply:?}") };
        in_words(&error.into())
    }

    #[test]
    fn what_a_script_has_met_reads_alike_from_every_version() {
        let before_7 =
            "ERR Error running script (call to f_2d86): @user_script:343: @user_script: 343: ";
        let since_7 = " script: 2d86, on @user_script:343.";
        let readonly = "READONLY You can't write against a read only replica";
        assert_eq!(told(&format!("{before_7}-{readonly}.")), readonly);
        assert_eq!(told(&format!("{readonly}.{since_7}")), readonly);
        let full = "OOM command not allowed when used memory > 'maxmemory'";
        let words = told(&format!("{full}.{since_7}"));
        assert!(words.starts_with(&format!("{full}: raise")), "{words}");
        assert_eq!(told(&format!("{before_7}-{full}.")), words);
    }

    #[test]
    fn what_an_acl_forbids_is_told_with_where_to_read_on() {
        for words in [
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "NOPERM No permissions to access a key",
            "ERR The user executing the script can't run this command or subcommand script: 2d86, on \
             @user_script:7.",
            "ERR ACL failure in script: User ada has no permissions to run the 'set' command script: \
             on @user_script:343.",
            "ERR Error running script (call to f_2d86): @user_script:7: @user_script: 7: The user \
             executing the script can't run this command or subcommand",
        ] {
            let told = told(words);
            assert!(
                told.starts_with("its ACL forbids") && told.contains("docs/redis.md"),
                "{told}"
            );
            assert!(!told.contains("@user_script"), "{told}");
        }
    }

    #[test]
    fn nothing_that_a_caller_has_sent_is_told() {
        let words = "ERR unknown command 'EVALSHA', with args beginning with: 'tg1:user=ada' ";
        assert_eq!(told(words), "ERR unknown command 'EVALSHA'");
    }
}
