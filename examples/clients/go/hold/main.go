// Works under a lease that lasts as long as a stream is open. The server renews it meanwhile.
//
//	./generate && build/hold localhost:8081
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	ratelimit "clients/build/envoy/extensions/common/ratelimit/v3"
	api "clients/build/tollgate/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// What is asked for: a path into the rules of a domain, here to the reports of a user in config/edge.yaml.
var what = &api.AcquireRequest{
	Domain: "edge",
	Descriptors: []*ratelimit.RateLimitDescriptor{
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{
			{Key: "path", Value: "/reports"}, {Key: "user", Value: "ada"},
		}},
	},
	// Without a limit it would hold nothing: where the rules have none for it, that is an error.
	RequireLimit: true,
}

func main() {
	log.SetFlags(0)
	connection, err := grpc.NewClient(os.Args[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// A connection whose other end is gone without a word is found by pings.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
	if err == nil {
		err = underLease(api.NewLeaseServiceClient(connection), work)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("released")
}

// work is what the lease is for. It stops where the lease is lost: others may have its slot.
func work(working context.Context) error {
	select {
	case <-working.Done():
		return context.Cause(working)
	case <-time.After(2 * time.Second):
		return nil
	}
}
