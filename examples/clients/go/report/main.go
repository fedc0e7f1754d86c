// Tells tollgate how busy this worker is, over and over, beside its work.
//
//	./generate && build/report localhost:8081
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	api "clients/build/tollgate/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Which worker this is, of which pool: here of the one in config/fleet.yaml.
const domain, pool = "fleet", "api"

var workerID = func() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}()

// It takes so many requests at once, and has so many now. Put your own numbers in their place.
const slots = 20

var busy atomic.Int32

func main() {
	log.SetFlags(0)
	connection, err := grpc.NewClient(os.Args[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// A connection whose other end is gone without a word is found by pings.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// And a server that was away for long is found soon after it is back: otherwise within two minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: timeout},
			MinConnectTimeout: timeout,
		}),
	)
	if err != nil {
		log.Fatal(err)
	}
	working, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	reporting := make(chan error, 1)
	go func() {
		defer stop()
		reporting <- keepReporting(working, api.NewUtilizationServiceClient(connection))
	}()
	work(working)
	if err := <-reporting; err != nil {
		log.Fatal("refused: ", err)
	}
}

// work is what the worker is there for; here it only looks busy.
func work(working context.Context) {
	for working.Err() == nil {
		busy.Store(min(max(busy.Load()+rand.Int32N(3)-1, 0), slots))
		pass(working, 100*time.Millisecond)
	}
}

// report is how busy the worker is now.
func report() *api.ReportUtilizationRequest {
	return &api.ReportUtilizationRequest{
		Domain: domain, Pool: pool, WorkerId: workerID, TotalSlots: slots,
		Load:       &api.ReportUtilizationRequest_BusySlots{BusySlots: uint32(busy.Load())},
		MeasuredAt: timestamppb.Now(),
	}
}
