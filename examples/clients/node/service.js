// Tollgate's services, made of the protos when the program starts.

import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const protos = fileURLToPath(new URL("../../../proto", import.meta.url));

// Enums as words. Whole numbers of 64 bits would be objects; a number is exact up to 2^53.
// Without defaults, numbers that are 0 would be missing.
const options = { includeDirs: [protos], enums: String, longs: Number, defaults: true };
const files = ["tollgate/v1/lease_service.proto", "tollgate/v1/utilization_service.proto"];
const { tollgate } = grpc.loadPackageDefinition(loadSync(files, options));

const channel = {
    // A connection whose other end is gone without a word is found by pings.
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 10_000,
    // And a server that was away for long is found soon after it is back: otherwise within two minutes.
    "grpc.max_reconnect_backoff_ms": 5_000,
};

export function connect(service, address) {
    return new tollgate.v1[service](address, grpc.credentials.createInsecure(), channel);
}

// Waits for an answer, but not for ever. The stream as a whole has no deadline: it may last long.
export async function inTime(stream, answer) {
    const late = setTimeout(() => stream.cancel(), 5_000);
    try {
        return await answer;
    } finally {
        clearTimeout(late);
    }
}

export function milliseconds({ seconds, nanos }) {
    return seconds * 1e3 + nanos / 1e6;
}

// What a refused caller is told. Without a `retryAfter`, trying again will never help.
export function tell({ message, retryAfter }) {
    console.log("refused:", message.trim());
    if (retryAfter) console.log("try again in", retryAfter.seconds, "s");
}
