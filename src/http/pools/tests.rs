use super::*;

#[test]
fn numbers_are_those_that_people_write() {
    // As doubles have it.
    let classes = vec![("test".to_owned(), 0.31 * 3.0), ("get".to_owned(), 0.0)];
    let workers = WorkersView::busy(classes);
    let shown = json!({ "pools": [{
        "domain": "edge",
        "pool": "api",
        "capacity": 1000,
        "capacity_reported": false,
        "reserved_slots": 200,
        "in_flight": { "critical": 37, "others": 512 },
        "workers": {
            "count": 50,
            "slots": 500,
            "utilization": 0.824,
            "last_report_seconds_ago": 0.8,
            "report_ttl_seconds": 20.0,
        },
        "shedding": {
            "amount": 0.31,
            "enforced": true,
            "classes": [
                { "class": "test", "drop_chance": 0.93 },
                { "class": "get", "drop_chance": 0.0 },
            ],
        },
    }] });
    assert_eq!(pools_json(&[PoolView::with_workers(Some(workers))]), shown);
}

#[test]
fn what_is_not_known_is_null() {
    let pool = PoolView { capacity: None, is_reported: true, ..PoolView::with_workers(None) };
    let shown = pools_json(&[pool]);
    let pool = &shown["pools"][0];
    for field in ["capacity", "reserved_slots", "workers", "shedding"] {
        assert_eq!(pool.get(field), Some(&Value::Null), "{field}");
    }
    assert_eq!(pool["capacity_reported"], true);
}
