// Works under a lease: acquires it, renews it while it works, and releases it.
//
//     npm ci && node acquire.js localhost:8081

import { promisify } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, milliseconds, tell } from "./service.js";

// What is asked for: a path into the rules of a domain, here to the reports of a user in config/edge.yaml.
const what = {
    domain: "edge",
    descriptors: [{ entries: [{ key: "path", value: "/reports" }, { key: "user", value: "ada" }] }],
};

// No call may hang for ever. A call that waits for a slot (`wait`) needs that much more.
const timeout = 5_000;

async function main(address) {
    const service = connect("LeaseService", address);
    const call = (method, request) =>
        promisify(service[method]).call(service, request, { deadline: Date.now() + timeout });

    // Without a limit it would hold nothing: where the rules have none for it, that is an error.
    const lease = await call("acquire", { ...what, requireLimit: true });
    if (lease.refusal) {
        tell(lease.refusal);
        return 1;
    }
    console.log("acquired", lease.leaseId);

    const stop = new AbortController();
    const renewing = renew(call, lease, stop);
    try {
        await work(stop.signal);
    } finally {
        stop.abort();
        await renewing;
        // Whatever became of the work. Should this call fail, or the process be killed, the slot comes
        // free when the lease's time is over.
        await call("release", { leaseId: lease.leaseId });
    }
    console.log("released");
    service.close();
    return 0;
}

// Renews the lease a third of the way to its end, so that one renewal may fail, and another. Where the
// lease is lost, it stops the work.
async function renew(call, lease, stop) {
    const third = milliseconds(lease.expiresIn) / 3;
    while (!stop.signal.aborted) {
        try {
            await sleep(third, null, { signal: stop.signal });
            // With what was asked for, a lease that the server has forgotten is taken again.
            const renewed = await call("renew", { leaseId: lease.leaseId, ...what });
            if (!renewed.expiresIn) stop.abort(new Error("the lease is lost"));
        } catch (error) {
            if (!stop.signal.aborted) console.error("not renewed:", error.message);
        }
    }
}

// What the lease is for. It stops where the lease is lost: others may have its slot.
async function work(signal) {
    await sleep(2_000, null, { signal });
}

process.exitCode = await main(process.argv[2]);
