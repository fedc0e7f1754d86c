// Works under a lease: acquires it, renews it while it works, and releases it.
//
//	./generate && build/acquire localhost:8081
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
)

// What is asked for: a path into the rules of a domain, here to the reports of a user in config/edge.yaml.
const domain = "edge"

var descriptors = []*ratelimit.RateLimitDescriptor{
	{Entries: []*ratelimit.RateLimitDescriptor_Entry{
		{Key: "path", Value: "/reports"}, {Key: "user", Value: "ada"},
	}},
}

func main() {
	log.SetFlags(0)
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := grpc.NewClient(os.Args[1], plain)
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
