// Works under a lease that lasts as long as a stream is open. The server renews it meanwhile.
//
//     npm ci && node hold.js localhost:8081

import { setTimeout as sleep } from "node:timers/promises";
import { connect, inTime, tell } from "./service.js";

// What is asked for: a path into the rules of a domain, here to the reports of a user in config/edge.yaml.
const what = {
    domain: "edge",
    descriptors: [{ entries: [{ key: "path", value: "/reports" }, { key: "user", value: "ada" }] }],
    // Without a limit it would hold nothing: where the rules have none for it, that is an error.
    requireLimit: true,
};

async function main(address) {
    const service = connect("LeaseService", address);
    const stream = service.hold();
    const events = stream[Symbol.asyncIterator]();
    stream.write({ acquire: what });
    const first = await inTime(stream, events.next());
    const lease = first.value.acquired;
    if (lease.refusal) {
        tell(lease.refusal);
        service.close();
        return 1;
    }
    console.log("acquired", lease.leaseId);

    const stop = new AbortController();
    const ended = follow(events, stop);
    try {
        await work(stop.signal);
    } finally {
        // Whatever became of the work. Should the process be killed, its end is the stream's, too.
        stream.end();
    }
    // The server ends its side once the lease is released.
    const broken = await inTime(stream, ended);
    console.log(broken ? `not released in time: ${broken.message}` : "released");
    service.close();
    return 0;
}

// Reads how it stands with the lease. Once it is not held any more, the stream ends, or breaks.
async function follow(events, stop) {
    try {
        while (!(await events.next()).done);
        stop.abort(new Error("the lease is lost"));
    } catch (error) {
        stop.abort(error);
        return error;
    }
}

// What the lease is for. It stops where the lease is lost: others may have its slot.
async function work(signal) {
    await sleep(2_000, null, { signal });
}

process.exitCode = await main(process.argv[2]);
