package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"time"

	api "clients/build/tollgate/v1"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// How long an answer may take.
const timeout = 5 * time.Second

// reporter reports, on one stream after the other.
type reporter struct {
	service api.UtilizationServiceClient
	// Whether there was ever an answer.
	accepted bool
	// How soon to report again, and how soon to open the next stream.
	again, pause time.Duration
}

// keepReporting reports until the worker stops. What is wrong, if it is the configuration.
func keepReporting(working context.Context, service api.UtilizationServiceClient) error {
	r := reporter{service: service}
	r.willReportAgain(timeout)
	for {
		failed := status.Convert(r.stream(working))
		if working.Err() != nil {
			return nil
		}
		// Once reports were taken, a mistake is somebody else's, and may go by as it came.
		isMistake := failed.Code() == codes.InvalidArgument || failed.Code() == codes.NotFound
		if isMistake && !r.accepted {
			return errors.New(failed.Message())
		}
		log.Print("not reported: ", failed.Message())
		// All workers lose a server at once. They should not all come back at once.
		pass(working, r.pause/2+rand.N(r.pause))
		r.pause = min(2*r.pause, r.again)
	}
}

// stream reports as long as there is an answer to every report, and the worker works.
func (r *reporter) stream(working context.Context) error {
	// When the work ends, the stream is closed, not broken off.
	streaming, end := context.WithCancel(context.Background())
	defer end()
	late := time.AfterFunc(timeout, end)
	defer late.Stop()
	stream, err := r.service.StreamUtilization(streaming)
	if err != nil {
		return err
	}
	// Where this fails, Recv says why.
	_ = stream.Send(report())
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		late.Stop()
		// Below 0, too, nothing is dropped.
		shedding := max(answer.GetShedding(), 0)
		fmt.Printf("the pool is %.0f%% busy, shedding %.0f%%\n", 100*answer.GetUtilization(), 100*shedding)
		r.accepted = true
		r.willReportAgain(answer.GetReportAgainAfter().AsDuration())
		pass(working, r.again)
		late.Reset(timeout)
		if working.Err() == nil {
			_ = stream.Send(report())
		} else {
			// Once this side is closed, the server ends its own.
			_ = stream.CloseSend()
		}
	}
}

func (r *reporter) willReportAgain(after time.Duration) {
	r.again, r.pause = after, after/8
}

// pass waits, but no longer than the worker works.
func pass(working context.Context, span time.Duration) {
	select {
	case <-working.Done():
	case <-time.After(span):
	}
}
