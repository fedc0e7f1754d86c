//! Rules as JSON.

use super::Above;
use crate::{
    limiter::{Limit, Limiter as _},
    rules::model::{
        Capacity, Descriptor, Domain, Kind, OnStoreFailure, Pool, Rule, Shedding, Utilization,
    },
    unit::WHOLE_PARTS,
};
use serde_json::{Value, json};

/// What is said of whole domains as JSON: of each, what leases are called, and its pools.
pub fn domains_json(domains: &[Domain]) -> Value {
    let pool = |pool: &Pool| {
        json!({
            "name": pool.name,
            "capacity": match pool.capacity {
                Capacity::Slots(slots) => slots.into(),
                Capacity::Reported => Value::from("reported"),
            },
            "reserved": f64::from(pool.reserved_parts) / f64::from(WHOLE_PARTS),
            "lease_ttl": pool.term.in_words(),
            "utilization": pool.utilization.as_ref().map(utilization_json),
        })
    };
    let domain = |domain: &Domain| {
        let pools: Vec<_> = domain.pools.iter().map(pool).collect();
        json!({
            "domain": domain.name,
            "lease_key": domain.lease_key,
            "on_store_failure": domain.on_store_failure.map(OnStoreFailure::name),
            "pools": pools,
        })
    };
    domains.iter().map(domain).collect()
}

fn utilization_json(utilization: &Utilization) -> Value {
    joined(utilization.settings.to_json(), json!({ "shed": utilization.shed }))
}

/// The rules as JSON: a list of limits, each with all that is known of it.
pub fn json(domains: &[Domain]) -> Value {
    let mut rules = Vec::new();
    for domain in domains {
        collect(&mut rules, domain, &domain.descriptors, &Above::of_domain(domain));
    }
    rules.into()
}

fn collect(rules: &mut Vec<Value>, domain: &Domain, descriptors: &[Descriptor], above: &Above<'_>) {
    for descriptor in descriptors {
        let here = above.below(descriptor);
        for rule in &descriptor.limits {
            rules.push(describe(domain, descriptor, rule, &here));
        }
        collect(rules, domain, &descriptor.descriptors, &here);
    }
}

fn describe(domain: &Domain, descriptor: &Descriptor, rule: &Rule, here: &Above<'_>) -> Value {
    let limit = match (rule.kind, &rule.shedding) {
        (Kind::Unlimited, _) => json!({ "unlimited": true }),
        (Kind::Limit(Limit::Utilization(limit)), Some(Shedding { classes, class, callers })) => {
            let keys: Vec<&str> = callers.iter().map(|place| here.key(*place)).collect();
            let class = here.key(*class);
            let more = json!({ "shed": classes, "class": class, "shed_by": keys });
            json!({ "utilization": joined(limit.to_json(), more) })
        }
        (Kind::Limit(limit), _) => limit.to_json(),
        (Kind::Report(settings), _) => {
            let worker = rule.worker.map(|place| here.key(place));
            let more = json!({ "worker": worker });
            json!({ "utilization_report": joined(settings.to_json(), more) })
        }
    };
    json!({
        "rule": rule.path(&here.path).as_str(),
        "domain": domain.name,
        "name": rule.name,
        "limit": limit,
        "pool": rule.pool,
        "lease_header": rule.lease_header,
        "replaces": rule.replaces,
        "enabled": rule.enabled,
        "shadow_mode": rule.shadow_mode,
        "at_run_time": rule.switched,
        "quota_mode": rule.quota_mode,
        "share_threshold": descriptor.share_threshold,
        "value_to_metric": descriptor.value_to_metric,
        "detailed_metric": rule.detailed_metric,
        "metadata": rule.metadata,
        "on_store_failure": rule.on_store_failure(domain.on_store_failure).map(OnStoreFailure::name),
        "message": rule.message,
    })
}

/// An object with the entries of another.
fn joined(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}
