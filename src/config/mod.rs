//! stub
use std::path::PathBuf;
/// x
#[derive(Default)]
pub struct Options {
    /// x
    pub merge_domains: bool,
}
/// x
pub struct Loaded {
    /// x
    pub domains: Vec<crate::rules::Domain>,
    /// x
    pub sources: Vec<()>,
    /// x
    pub diagnostics: Vec<()>,
}
impl Loaded {
    /// x
    pub fn has_errors(&self) -> bool {
        false
    }
    /// x
    pub fn render(&self, _c: bool) -> String {
        String::new()
    }
    /// x
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}
/// x
pub fn load(_p: &[PathBuf], _o: &Options) -> Loaded {
    Loaded { domains: vec![], sources: vec![], diagnostics: vec![] }
}
