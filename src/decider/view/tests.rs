use super::*;

#[test]
fn the_operator_is_told_why_the_store_cannot_be_asked() {
    let down = |reason: &str| Condition { down: Some(reason.to_owned()), ..Condition::default() };
    let cases = [
        (StoreError::Late, Condition::default(), "the store did not answer in time"),
        (
            StoreError::Unreachable,
            down("connection refused"),
            "the store cannot be reached: connection refused",
        ),
        (
            StoreError::Refused("OOM".to_owned()),
            Condition::default(),
            "the store refuses to decide: OOM",
        ),
    ];
    for (error, condition, words) in cases {
        assert_eq!(why(&error, &condition), words);
    }
}
