"""Works under a lease that lasts as long as a stream is open. The server renews it meanwhile.

    ./generate && build/bin/python hold.py localhost:8081
"""

import queue
import sys
import threading

import grpc
from envoy.extensions.common.ratelimit.v3.ratelimit_pb2 import RateLimitDescriptor
from tollgate.v1 import lease_service_pb2 as leases
from tollgate.v1.lease_service_pb2_grpc import LeaseServiceStub

from stream import OPTIONS, TIMEOUT_S, in_time

# What is asked for: a path into the rules of a domain, here to the reports of a user in config/edge.yaml.
PATH = [{"key": "path", "value": "/reports"}, {"key": "user", "value": "ada"}]
# Without a limit it would hold nothing: where the rules have none for it, that is an error.
WHAT = leases.AcquireRequest(
    domain="edge", descriptors=[RateLimitDescriptor(entries=PATH)], require_limit=True
)


def main(address: str) -> int:
    with grpc.insecure_channel(address, OPTIONS) as channel:
        requests = queue.SimpleQueue()
        requests.put(leases.HoldRequest(acquire=WHAT))
        # The stream of requests lasts until there is a None in the queue.
        events = LeaseServiceStub(channel).Hold(iter(requests.get, None))
        ended = threading.Event()
        try:
            lease = next(in_time(events)).acquired
            if lease.outcome != leases.AcquireResponse.OUTCOME_ACQUIRED:
                print("refused:", lease.refusal.message.strip())
                if lease.refusal.HasField("retry_after"):
                    print("try again in", lease.refusal.retry_after.seconds, "s")
                return 1

            print("acquired", lease.lease_id)
            threading.Thread(target=follow, args=(events, ended)).start()
            work(ended)
        finally:
            # Whatever became of the work. Should the process be killed, its end is the stream's, too.
            requests.put(None)
        # The server ends its side once the lease is released.
        print("released" if ended.wait(TIMEOUT_S) else "not released in time")
        return 0


def follow(events, ended: threading.Event) -> None:
    """Reads how it stands with the lease. Once it is not held any more, the stream ends."""
    try:
        for _ in events:
            pass
    except grpc.RpcError as error:
        print("the stream broke:", error.details(), file=sys.stderr)
    ended.set()


def work(ended: threading.Event) -> None:
    """What the lease is for. It stops where the lease is lost: others may have its slot."""
    if ended.wait(2):
        raise RuntimeError("the lease is lost")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
