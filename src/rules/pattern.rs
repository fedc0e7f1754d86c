//! x
/// x
#[derive(Debug)]
pub struct Pattern(String);
impl Pattern {
    /// x
    pub fn new(t: &str) -> Self {
        Self(t.into())
    }
    /// x
    pub fn matches(&self, _v: &[u8]) -> bool {
        !self.0.is_empty()
    }
}
