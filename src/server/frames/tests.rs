use super::*;
use crate::{server::turn::BYTES_A_TURN, telemetry::DoorCounts};
use proptest::prelude::*;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::watch;

const DATA: u8 = 0;
const PING: u8 = 6;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &1_u32.to_be_bytes(), payload].concat()
}

/// What comes piece by piece; behind the last piece nothing more comes, or the end.
struct Pieces {
    pieces: VecDeque<Vec<u8>>,
    ends: bool,
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(mut piece) = self.pieces.pop_front() else {
            return if self.ends { Poll::Ready(Ok(())) } else { Poll::Pending };
        };
        let rest = piece.split_off(piece.len().min(buffer.remaining()));
        buffer.put_slice(&piece);
        if !rest.is_empty() {
            self.pieces.push_front(rest);
        }
        Poll::Ready(Ok(()))
    }
}

fn turn() -> (Turn, watch::Receiver<DoorCounts>) {
    let counts = Arc::<watch::Sender<DoorCounts>>::default();
    let told = counts.subscribe();
    let turn = Turn::new(counts);
    turn.begin();
    (turn, told)
}

fn frames(pieces: Vec<Vec<u8>>, budget: &Budget) -> Frames<Pieces> {
    let mut scanner = Scanner::default();
    assert_eq!(scanner.scan(&[b'p'; PREFACE]), Scanned::default());
    let stream = Pieces { pieces: pieces.into(), ends: false };
    Frames { scanner, ..Frames::new(stream, turn().0, budget.clone()) }
}

/// Reads once, with room for so many bytes. `None` where nothing is there.
fn read(frames: &mut Frames<Pieces>, room: usize) -> Option<io::Result<Vec<u8>>> {
    let mut bytes = vec![0; room];
    let mut buffer = ReadBuf::new(&mut bytes);
    let mut context = Context::from_waker(std::task::Waker::noop());
    match Pin::new(frames).poll_read(&mut context, &mut buffer) {
        Poll::Ready(read) => Some(read.map(|()| buffer.filled().to_vec())),
        Poll::Pending => None,
    }
}

/// All that can be read now, with turns that begin anew as often as needed.
fn read_all(frames: &mut Frames<Pieces>, room: usize) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        frames.turn.begin();
        match read(frames, room) {
            Some(bytes) => all.extend(bytes.unwrap()),
            None if frames.stream.pieces.is_empty() => return all,
            None => {}
        }
    }
}

#[test]
fn a_header_block_is_given_on_when_it_is_whole() {
    let budget = Budget::default();
    let ping = frame(PING, 0, &[0; 8]);
    let headers = frame(HEADERS, 0, &[1; 100]);
    let more = frame(CONTINUATION, 0, &[2; 100]);
    let last = frame(CONTINUATION, END_HEADERS, &[3; 100]);
    let data = frame(DATA, 0, b"data");
    let mut frames = frames(vec![[&ping[..], &headers].concat(), more.clone()], &budget);
    assert_eq!(read_all(&mut frames, 1000), ping);
    frames.stream.pieces.extend([[&last[..], &data, &headers[..5]].concat()]);
    let block = [&headers[..], &more, &last, &data].concat();
    assert_eq!(read_all(&mut frames, 1000), block);
    frames.stream.pieces.extend([headers[5..].to_vec(), last.clone()]);
    assert_eq!(read_all(&mut frames, 1000).len(), headers.len() + last.len());
    assert!(frames.held.is_empty() && frames.reservation.is_none());
}

#[test]
fn what_is_held_back_takes_room_and_is_given_up_where_that_is_wanted_for_others() {
    let budget = Budget::of(10_000);
    let mut frames = frames(vec![frame(HEADERS, 0, &[1; 5_000])], &budget);
    assert_eq!(read_all(&mut frames, 100), b"");
    assert_eq!(budget.reserve(4_000).set(4_000), Ok(()));
    assert_eq!(budget.revoked(), 0);
    let _others = budget.reserve(6_000);
    assert_eq!(budget.revoked(), 1);
    frames.turn.begin();
    assert!(read(&mut frames, 100).unwrap().is_err());
}

#[test]
fn of_a_block_that_is_too_large_nothing_is_held_back() {
    let budget = Budget::default();
    let mut blocks = vec![frame(HEADERS, 0, &[1; 16_000])];
    blocks.extend((0..20).map(|_| frame(CONTINUATION, 0, &[2; 16_000])));
    let all: Vec<u8> = blocks.concat();
    let mut frames = frames(vec![all.clone()], &budget);
    let read = read_all(&mut frames, 8 << 10);
    assert_eq!(read.len(), all.len());
    assert!(read == all);
    assert_eq!(frames.scanner.given_on(), KEPT_OF_TOO_LARGE);
    assert!(frames.reservation.is_some(), "what the library keeps of it is reserved");
}

#[test]
fn a_turn_ends_after_so_many_bytes() {
    let budget = Budget::default();
    let data = frame(DATA, 0, &[7; 16_000]);
    let mut frames = frames(vec![data.repeat(10)], &budget);
    let mut turns = 0;
    let mut all = 0;
    while all < data.len() * 10 {
        frames.turn.begin();
        let mut turn = 0;
        while let Some(bytes) = read(&mut frames, 4 << 10) {
            turn += bytes.unwrap().len();
        }
        assert!((1..BYTES_A_TURN + (4 << 10)).contains(&turn), "{turn} bytes in a turn");
        (all, turns) = (all + turn, turns + 1);
    }
    assert!(turns >= 8, "{turns} turns");
}

/// Each is a request that costs as much as a longer one.
#[test]
fn a_turn_ends_after_fewer_bytes_where_requests_are_short() {
    let budget = Budget::default();
    let short = frame(HEADERS, END_HEADERS, &[0x82; 6]);
    let mut frames = frames((0..40).map(|_| short.repeat(1_000)).collect(), &budget);
    let mut longest = 0;
    for turn in 0..20 {
        frames.turn.begin();
        let mut bytes = 0;
        while let Some(read) = read(&mut frames, 8 << 10) {
            bytes += read.unwrap().len();
        }
        // The first read shows how short they are.
        longest = if turn == 0 { 0 } else { bytes.max(longest) };
    }
    assert!((1..=2 << 10).contains(&longest), "{longest} bytes in a turn");
}

#[test]
fn a_connection_may_send_some_settings() {
    let budget = Budget::default();
    let settings = frame(SETTINGS, 0, &[0, 4, 0, 0, 0, 0]);
    let acknowledged = frame(SETTINGS, ACK, &[]).repeat(MOST_SETTINGS + 1);
    let sent = [settings.repeat(MOST_SETTINGS), acknowledged, settings].concat();
    let mut frames = frames(sent.chunks(7).map(<[u8]>::to_vec).collect(), &budget);
    let read = std::iter::from_fn(|| {
        frames.turn.begin();
        read(&mut frames, 100)
    });
    let error = read.take(10_000).find_map(Result::err).unwrap();
    assert!(error.to_string().contains("SETTINGS"), "{error}");
}

#[test]
fn a_large_block_that_becomes_no_request_is_counted() {
    let (turn, counts) = turn();
    let counted = || counts.borrow().large_heads;
    turn.note_blocks(3, 1);
    turn.count_refused(3);
    assert_eq!(counted(), 0, "all became requests");
    turn.note_blocks(3, 1);
    turn.count_refused(2);
    assert_eq!(counted(), 1);
    turn.note_blocks(2, 0);
    turn.count_refused(1);
    assert_eq!(counted(), 1, "it was small, so something else was wrong with it");
}

#[test]
fn what_is_held_back_is_given_on_at_the_end() {
    let budget = Budget::default();
    let headers = frame(HEADERS, 0, &[1; 100]);
    let mut frames = frames(vec![headers.clone()], &budget);
    assert_eq!(read_all(&mut frames, 1000), b"");
    frames.stream.ends = true;
    assert_eq!(read(&mut frames, 1000).unwrap().unwrap(), headers);
    assert_eq!(read(&mut frames, 1000).unwrap().unwrap(), b"");
}

/// Any frames, in order and out of it.
fn any_frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let kind = prop_oneof![Just(HEADERS), Just(CONTINUATION), Just(DATA), Just(PING)];
    let flags = prop_oneof![Just(0), Just(END_HEADERS), any::<u8>()];
    let one = (kind, flags, prop::collection::vec(any::<u8>(), 0..50))
        .prop_map(|(kind, flags, payload)| frame(kind, flags, &payload));
    prop::collection::vec(one, 1..20)
}

proptest! {
    /// However the bytes come and are read, they are given on as they are and in order; and never a part of a header
    /// block that is not whole.
    #[test]
    fn bytes_are_given_on_in_order(
        frames_sent in any_frames(),
        cuts in prop::collection::vec(1_usize..100, 1..40),
        room in 1_usize..200,
    ) {
        let all = frames_sent.concat();
        let (mut pieces, mut rest) = (Vec::new(), &all[..]);
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece.to_vec());
            rest = after;
        }
        pieces.push(rest.to_vec());
        pieces.retain(|piece| !piece.is_empty());
        let mut frames = frames(pieces, &Budget::default());
        let read = read_all(&mut frames, room);
        prop_assert!(all.starts_with(&read));
        prop_assert_eq!(all.len() - read.len(), open_at_the_end(&frames_sent));
    }
}

/// How many bytes of the header block that is open at the end have come.
fn open_at_the_end(frames: &[Vec<u8>]) -> usize {
    let (mut in_block, mut open) = (false, 0);
    for frame in frames {
        let (kind, ends) = (frame[3], frame[4] & END_HEADERS != 0);
        if (kind == HEADERS && !in_block) || (kind == CONTINUATION && in_block) {
            open = if ends { 0 } else { open + frame.len() };
            in_block = !ends;
        } else {
            (in_block, open) = (false, 0);
        }
    }
    open
}
