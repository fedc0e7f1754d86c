use super::*;

fn body(intake: &Intake) -> Counted<String> {
    intake.count(String::new())
}

#[test]
fn large_messages_share_the_room_and_small_ones_need_none() {
    let intake = Intake::default();
    let (mut large, mut other) = (body(&intake), body(&intake));
    large.take(FREE).unwrap();
    large.take(ROOM - 1).unwrap();
    other.take(FREE + 1).unwrap();
    assert_eq!(other.take(1).unwrap_err().code(), tonic::Code::ResourceExhausted);
    body(&intake).take(FREE).unwrap();
    drop(large);
    other.take(ROOM - 1).unwrap();
    drop(other);
    assert_eq!(intake.0.available_permits(), ROOM);
}

#[test]
fn what_fits_in_no_number_does_not_fit() {
    body(&Intake::default()).take(usize::MAX).unwrap_err();
}
