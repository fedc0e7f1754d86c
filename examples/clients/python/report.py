"""Tells tollgate how busy this worker is, over and over, beside its work.

    ./generate && build/bin/python report.py localhost:8081
"""

import os
import queue
import random
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import grpc
from tollgate.v1.utilization_service_pb2 import ReportUtilizationRequest
from tollgate.v1.utilization_service_pb2_grpc import UtilizationServiceStub

from stream import OPTIONS, in_time

# Which worker this is, of which pool: here of the one in config/fleet.yaml.
WHO = {"domain": "fleet", "pool": "api", "worker_id": f"{socket.gethostname()}-{os.getpid()}"}

# What no other try makes good.
MISTAKES = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)


class Worker:
    """Takes so many requests at once, and has so many now. Put your own numbers in their place."""

    slots, busy = 20, 0

    def work(self, stopped: threading.Event) -> None:
        """What it is there for; here it only looks busy."""
        while not stopped.wait(0.1):
            self.busy = min(max(self.busy + random.choice((-1, 1)), 0), self.slots)


def main(address: str) -> str | None:
    """Works until a signal ends it. What is wrong, if it is the configuration."""
    worker, stopped = Worker(), threading.Event()
    with grpc.insecure_channel(address, OPTIONS) as channel, ThreadPoolExecutor(1) as beside:
        service = UtilizationServiceStub(channel)
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: sys.exit())
            reporting = beside.submit(keep_reporting, service, worker, stopped)
            worker.work(stopped)
        finally:
            stopped.set()
        return reporting.result()


def keep_reporting(service, worker: Worker, stopped: threading.Event) -> str | None:
    """Reports until the worker stops, on one stream after the other."""
    again, accepted = 5, False
    pause = again / 8
    while not stopped.is_set():
        reports = queue.SimpleQueue()
        reports.put(report(worker))
        try:
            # The stream of reports lasts until there is a None in the queue; then the server ends its side.
            for answer in in_time(service.StreamUtilization(iter(reports.get, None))):
                # Below 0, too, nothing is dropped.
                shedding = max(answer.shedding, 0)
                print(f"the pool is {answer.utilization:.0%} busy, shedding {shedding:.0%}")
                again, accepted = answer.report_again_after.ToTimedelta().total_seconds(), True
                pause = again / 8
                reports.put(None if stopped.wait(again) else report(worker))
        except grpc.RpcError as error:
            # Once reports were taken, a mistake is somebody else's, and may go by as it came.
            if error.code() in MISTAKES and not accepted:
                stopped.set()
                return f"refused: {error.details()}"
            print("not reported:", error.details(), file=sys.stderr)
        finally:
            reports.put(None)
        # All workers lose a server at once. They should not all come back at once.
        stopped.wait(pause * random.uniform(0.5, 1.5))
        pause = min(2 * pause, again)


def report(worker: Worker) -> ReportUtilizationRequest:
    """How busy the worker is now."""
    now = datetime.now(timezone.utc)
    return ReportUtilizationRequest(
        **WHO, total_slots=worker.slots, busy_slots=worker.busy, measured_at=now
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
