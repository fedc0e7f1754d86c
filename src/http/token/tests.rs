use super::*;

const SECRET: &str = "0123456789abcdef";

fn token(text: &str) -> Result<Token, InvalidToken> {
    Token::open(TokenSource::Environment(text.to_owned()))
}

fn is_let_in(header: &str) -> bool {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, HeaderValue::from_str(header).unwrap());
    token(SECRET).unwrap().is_in(&headers)
}

#[test]
fn the_token_and_nothing_else_lets_in() {
    assert!(!token(SECRET).unwrap().is_in(&HeaderMap::new()));
    assert!(is_let_in("Bearer 0123456789abcdef"));
    assert!(is_let_in("bearer 0123456789abcdef"), "schemes have no case");
    for wrong in [
        "0123456789abcdef",
        "Bearer",
        "Bearer ",
        "Basic 0123456789abcdef",
        "Bearer 0123456789abcde",
        "Bearer 0123456789abcdeF",
        "Bearer 0123456789abcdef0",
        "Bearer 0123456789abcdef 0123456789abcdef",
    ] {
        assert!(!is_let_in(wrong), "{wrong}");
    }
}

#[test]
fn what_can_be_guessed_or_not_be_sent_is_no_token() {
    for weak in ["", "0123456789abcde", "               x", "0123456789 abcdef", "0123456789abcdé"]
    {
        let error = token(weak).err().unwrap().to_string();
        assert!(error.contains("TOLLGATE_ADMIN_TOKEN: ") && error.contains("16"), "{error}");
        assert!(weak.is_empty() || !error.contains(weak), "{error}");
    }
    assert_eq!(*token(" 0123456789abcdef\n").unwrap().secret.borrow(), SECRET);
    assert_eq!(format!("{:?}", TokenSource::Environment(SECRET.to_owned())), "Environment");
}
