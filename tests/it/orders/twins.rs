//! What a store is told of orders, random histories of it, means the same in Rust and in Lua: the same answers,
//! and the same stands there, on a real Redis.

use crate::support::{Redis, until};
use proptest::{
    prelude::*,
    test_runner::{FileFailurePersistence, TestRunner},
};
use std::time::Duration;
use tokio::runtime::Handle;
use tollgate::{
    clock::Timestamp,
    store::{
        Memory, Redis as Store, StoreError,
        orders::{Change, Telling, Told, Version},
        redis::{Address, Certificates},
    },
};

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab=*]?", any::<String>()]
}

fn any_change() -> impl Strategy<Value = Change> {
    let field = prop_oneof!["(on|shadow|limit) [ab]", "limit [ab]", any::<String>()];
    // All that are told have a space in them; the script's own have none.
    let field = field.prop_map(|field| if field.contains(' ') { field } else { field + " " });
    (field, prop::option::of(any_text()), prop::option::of(any_text()))
        .prop_map(|(field, was, is)| Change { field, was, is })
}

/// What is told, and of which version: of the last that was told, or of one by these numbers.
fn any_telling() -> impl Strategy<Value = (Option<[u64; 3]>, Vec<Change>)> {
    let known = prop::option::weighted(0.3, [0..3_u64, 0..6, 0..6]);
    (known, prop::collection::vec(any_change(), 0..4))
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_and_lua_take_in_the_same() {
    let redis = Redis::start().await;
    let address = Address::parse(redis.url()).unwrap();
    let store = Store::open(address, Certificates::default(), Duration::from_secs(30)).await;
    let (store, handle) = (store.unwrap(), Handle::current());
    let histories = prop::collection::vec(any_telling(), 1..12);
    let persistence = FileFailurePersistence::Off;
    let config = ProptestConfig {
        cases: 300,
        failure_persistence: Some(Box::new(persistence)),
        ..ProptestConfig::default()
    };
    tokio::task::block_in_place(|| {
        TestRunner::new(config)
            .run(&histories, |history| {
                handle.block_on(redis.ask::<()>(&["FLUSHALL"]));
                let memory = Memory::new(1);
                let mut last = Version::default();
                for (place, (known, changes)) in (1..).zip(&history) {
                    let known =
                        known.map_or(last, |[epoch, number, mark]| Version { epoch, number, mark });
                    let telling = Telling { known, changes, drawn: [1, place % 4] };
                    let in_rust = memory.tell_orders(Timestamp::default(), telling);
                    let in_lua = handle.block_on(until("it is reached", async || {
                        match store.tell_orders(telling).await {
                            // On a busy machine a connection is soon thought to be lost.
                            Err(StoreError::Unreachable) => None,
                            told => Some(told.unwrap()),
                        }
                    }));
                    last = in_rust.version;
                    prop_assert_eq!(Told { now: in_rust.now, ..in_lua }, in_rust);
                }
                Ok(())
            })
            .unwrap();
    });
}
