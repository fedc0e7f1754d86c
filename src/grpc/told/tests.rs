use super::*;
use crate::{
    clock::{Clock, Deadline, ManualClock},
    config::domains_of,
    decider::{Acquire, Decider, Modes},
    request::{Descriptor, Entry, Request},
    rules::Rules,
    store::{Memory, Store},
};
use bytes::Bytes;
use http::HeaderMap;
use std::{convert::Infallible, future::poll_fn, time::Duration};

const RULES: &str = "
domain: test
descriptors:
  - key: alone
    concurrency: {max: 1, lease_ttl: 60s}
";

fn decider() -> Arc<Decider> {
    let store = Store::Memory(Memory::new(1000));
    let clock = Clock::Manual(ManualClock::default());
    Decider::new(Rules::new(domains_of(RULES)), store, clock, Modes::default())
}

/// Takes the one slot, where it is free.
async fn take(decider: &Arc<Decider>) -> Option<Taken> {
    decider.finish_releases(Duration::from_secs(60)).await;
    let entries = vec![Entry { key: "alone".into(), value: "x".into() }];
    let descriptors = vec![Descriptor { entries, ..Descriptor::default() }];
    let request = Request { domain: "test".into(), descriptors, hits_addend: 0 };
    let acquire =
        Acquire { request, id: None, term: None, wait: Duration::ZERO, requires_limit: false };
    decider.acquire(&acquire, Deadline::default()).await.unwrap().1
}

/// A message and trailers, as gRPC has them.
struct Answer(Vec<Frame<Bytes>>);

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop().map(Ok))
    }
}

fn answered(taken: Taken) -> Told<Answer> {
    let frames = vec![Frame::trailers(HeaderMap::new()), Frame::data(Bytes::from("message"))];
    let (metadata, answer, extensions) = until_told(Answer(frames), Some(taken)).into_parts();
    let mut response = http::Response::new(answer);
    (*response.headers_mut(), *response.extensions_mut()) = (metadata.into_headers(), extensions);
    keep_when_told(response).into_body()
}

async fn send_frame(body: &mut Told<Answer>) {
    let mut body = Pin::new(body);
    poll_fn(|context| body.as_mut().poll_frame(context)).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_was_taken_is_kept_when_all_of_the_answer_is_gone() {
    let decider = decider();
    let mut body = answered(take(&decider).await.unwrap());
    send_frame(&mut body).await;
    send_frame(&mut body).await;
    drop(body);
    assert!(take(&decider).await.is_none());
}

#[tokio::test]
async fn what_was_taken_is_given_back_when_the_answer_stays_behind() {
    let decider = decider();
    drop(answered(take(&decider).await.unwrap()));
    let mut body = answered(take(&decider).await.unwrap());
    send_frame(&mut body).await;
    drop(body);
    take(&decider).await.unwrap().keep();
}
