"""Works under a lease: acquires it, renews it while it works, and releases it.

    ./generate && build/bin/python acquire.py localhost:8081
"""

import sys
import threading

import grpc
from envoy.extensions.common.ratelimit.v3.ratelimit_pb2 import RateLimitDescriptor
from tollgate.v1 import lease_service_pb2 as leases
from tollgate.v1.lease_service_pb2_grpc import LeaseServiceStub

# What is asked for: a path into the rules of a domain, here to the reports of a user in config/edge.yaml.
PATH = [{"key": "path", "value": "/reports"}, {"key": "user", "value": "ada"}]
WHAT = {"domain": "edge", "descriptors": [RateLimitDescriptor(entries=PATH)]}

# No call may hang for ever. A call that waits for a slot (`wait=`) needs that much more.
TIMEOUT_S = 5


def main(address: str) -> int:
    with grpc.insecure_channel(address) as channel:
        service = LeaseServiceStub(channel)
        # Without a limit it would hold nothing: where the rules have none for it, that is an error.
        request = leases.AcquireRequest(**WHAT, require_limit=True)
        lease = service.Acquire(request, timeout=TIMEOUT_S)
        if lease.outcome != leases.AcquireResponse.OUTCOME_ACQUIRED:
            print("refused:", lease.refusal.message.strip())
            if lease.refusal.HasField("retry_after"):
                print("try again in", lease.refusal.retry_after.seconds, "s")
            return 1

        print("acquired", lease.lease_id)
        done, lost = threading.Event(), threading.Event()
        renewing = threading.Thread(target=renew, args=(service, lease, done, lost))
        renewing.start()
        try:
            work(lost)
        finally:
            done.set()
            renewing.join()
            # Whatever became of the work. Should this call fail, or the process be killed, the slot
            # comes free when the lease's time is over.
            service.Release(leases.ReleaseRequest(lease_id=lease.lease_id), timeout=TIMEOUT_S)
        print("released")
        return 0


def renew(service, lease, done: threading.Event, lost: threading.Event) -> None:
    """Renews the lease a third of the way to its end, so that one renewal may fail, and another."""
    while not done.wait(lease.expires_in.ToTimedelta().total_seconds() / 3):
        try:
            # With what was asked for, a lease that the server has forgotten is taken again.
            request = leases.RenewRequest(lease_id=lease.lease_id, **WHAT)
            renewed = service.Renew(request, timeout=TIMEOUT_S)
            if not renewed.HasField("expires_in"):
                return lost.set()
        except grpc.RpcError as error:
            print("not renewed:", error.details(), file=sys.stderr)


def work(lost: threading.Event) -> None:
    """What the lease is for. It stops where the lease is lost: others may have its slot."""
    if lost.wait(2):
        raise RuntimeError("the lease is lost")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
