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
        orders::{Change, Fields, Telling, Told},
        redis::{Address, Certificates},
    },
};

#[derive(Debug, Clone)]
enum What {
    Changes(Vec<Change>),
    All(Fields),
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab=*]?", Just("version".to_owned()), any::<String>()]
}

fn any_change() -> impl Strategy<Value = Change> {
    let field = prop_oneof!["switch [ab]", any::<String>()];
    // The script's own field is none that is told: they all begin otherwise.
    let field = field.prop_filter("a name of our own", |field| field != "version");
    (field, any::<Option<Option<String>>>(), prop::option::of(any_text())).prop_map(
        |(field, was, is)| Change {
            field,
            was: was.map(|was| was.map(|text| text.chars().take(1).collect())),
            is,
        },
    )
}

fn any_telling() -> impl Strategy<Value = (u64, What)> {
    let changes = prop::collection::vec(any_change(), 0..4).prop_map(What::Changes);
    let fields = prop::collection::btree_map("switch [abc]", any_text(), 0..3);
    (0..6_u64, prop_oneof![4 => changes, 1 => fields.prop_map(What::All)])
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
                for (known, what) in &history {
                    let telling = match what {
                        What::Changes(changes) => Telling::Changes(changes),
                        What::All(fields) => Telling::All(fields),
                    };
                    let in_rust = memory.tell_orders(Timestamp::default(), *known, telling);
                    let in_lua = handle.block_on(until("it is reached", async || {
                        match store.tell_orders(*known, telling).await {
                            // On a busy machine a connection is soon thought to be lost.
                            Err(StoreError::Unreachable) => None,
                            told => Some(told.unwrap()),
                        }
                    }));
                    prop_assert_eq!(Told { now: in_rust.now, ..in_lua }, in_rust);
                }
                Ok(())
            })
            .unwrap();
    });
}
