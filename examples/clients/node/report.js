// Tells tollgate how busy this worker is, over and over, beside its work.
//
//     npm ci && node report.js localhost:8081

import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { status } from "@grpc/grpc-js";
import { connect, inTime, milliseconds } from "./service.js";

// Which worker this is, of which pool: here of the one in config/fleet.yaml.
const who = { domain: "fleet", pool: "api", workerId: `${hostname()}-${process.pid}` };

// It takes so many requests at once, and has so many now. Put your own numbers in their place.
const worker = { slots: 20, busy: 0 };

// What no other try makes good.
const mistakes = [status.INVALID_ARGUMENT, status.NOT_FOUND];

async function main(address) {
    const service = connect("UtilizationService", address);
    const stop = new AbortController();
    for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop.abort());
    const reporting = keepReporting(service, stop);
    await work(stop.signal);
    const mistake = await reporting;
    service.close();
    if (mistake) console.error("refused:", mistake.details);
    return mistake ? 1 : 0;
}

// What the worker is there for; here it only looks busy.
async function work(signal) {
    while (!signal.aborted) {
        const busy = worker.busy + (Math.random() < 0.5 ? -1 : 1);
        worker.busy = Math.min(Math.max(busy, 0), worker.slots);
        await pass(100, signal);
    }
}

// Reports until the worker stops, on one stream after the other. What is wrong, if it is the configuration.
async function keepReporting(service, stop) {
    let again = 5_000;
    let pause = again / 8;
    let accepted = false;
    while (!stop.signal.aborted) {
        const stream = service.streamUtilization();
        const answers = stream[Symbol.asyncIterator]();
        const next = async () => (await inTime(stream, answers.next())).value;
        try {
            stream.write(report());
            for (let answer = await next(); answer; answer = await next()) {
                tell(answer);
                accepted = true;
                again = milliseconds(answer.reportAgainAfter);
                pause = again / 8;
                await pass(again, stop.signal);
                // Once this side is closed, the server ends its own.
                if (stop.signal.aborted) stream.end();
                else stream.write(report());
            }
        } catch (error) {
            // Once reports were taken, a mistake is somebody else's, and may go by as it came.
            if (mistakes.includes(error.code) && !accepted) {
                stop.abort();
                return error;
            }
            console.error("not reported:", error.details);
        }
        // All workers lose a server at once. They should not all come back at once.
        await pass(pause * (0.5 + Math.random()), stop.signal);
        pause = Math.min(2 * pause, again);
    }
}

// How busy the worker is now.
function report() {
    const now = Date.now();
    const measuredAt = { seconds: Math.floor(now / 1e3), nanos: (now % 1e3) * 1e6 };
    return { ...who, totalSlots: worker.slots, busySlots: worker.busy, measuredAt };
}

function tell({ utilization, shedding }) {
    const percent = (share) => `${Math.round(100 * share)}%`;
    // Below 0, too, nothing is dropped.
    console.log(`the pool is ${percent(utilization)} busy, shedding ${percent(Math.max(shedding, 0))}`);
}

// Waits, but no longer than the worker works.
async function pass(time, signal) {
    await sleep(time, null, { signal }).catch(() => {});
}

process.exitCode = await main(process.argv[2]);
