use super::*;

const SECOND: u64 = 1_000_000;

#[test]
fn a_flood_is_a_line_now_and_then_and_nobody_in_it_is_forgotten() {
    let mut watch = DoorWatch::new("gRPC");
    let mut lines = Vec::new();
    for second in 0..=60 {
        let counts = DoorCounts { full: 1000 * (second + 1), ..DoorCounts::default() };
        lines.extend(watch.tell(&counts, Timestamp::from_micros(second * SECOND)));
    }
    assert_eq!(lines.len(), 7, "one every ten seconds");
    let told =
        lines.iter().map(|(_, line)| line.split(' ').nth(2).unwrap().parse::<u64>().unwrap());
    assert_eq!(told.sum::<u64>(), 61_000);
}
