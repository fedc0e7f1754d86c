//! One way to wait.

use std::time::Duration;
use tokio::time;

/// Long enough for a busy machine; only a failure ever lasts so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for a second, for what is promised to be so once a second is over. All other waiting is [`until`].
pub(crate) async fn a_second() {
    time::sleep(Duration::from_secs(1)).await;
}

/// Asks until there is an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("waited in vain until {what}"))
}
