"""What keeps a stream from hanging. For the clients here that open one."""

import threading

# How long an answer may take.
TIMEOUT_S = 5

OPTIONS = [
    # A connection whose other end is gone without a word is found by pings.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # And a server that was away for long is found soon after it is back: otherwise within two minutes.
    ("grpc.max_reconnect_backoff_ms", 5_000),
]


def in_time(answers):
    """The answers of a stream, each in time. The stream as a whole has no deadline: it may last long."""
    while True:
        late = threading.Timer(TIMEOUT_S, answers.cancel)
        late.start()
        try:
            answer = next(answers, None)
        finally:
            late.cancel()
        if answer is None:
            return
        yield answer
