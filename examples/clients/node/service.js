// Tollgate's LeaseService, made of the proto when the program starts.

import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const protos = fileURLToPath(new URL("../../../proto", import.meta.url));

// Enums as words. Whole numbers of 64 bits would be objects; a number is exact up to 2^53.
// Without defaults, numbers that are 0 would be missing.
const options = { includeDirs: [protos], enums: String, longs: Number, defaults: true };
const { tollgate } = grpc.loadPackageDefinition(loadSync("tollgate/v1/lease_service.proto", options));

// A connection whose other end is gone without a word is found by pings.
const keepalive = { "grpc.keepalive_time_ms": 30_000, "grpc.keepalive_timeout_ms": 10_000 };

export function connect(address) {
    return new tollgate.v1.LeaseService(address, grpc.credentials.createInsecure(), keepalive);
}

// What a refused caller is told. Without a `retryAfter`, trying again will never help.
export function tell({ message, retryAfter }) {
    console.log("refused:", message.trim());
    if (retryAfter) console.log("try again in", retryAfter.seconds, "s");
}
