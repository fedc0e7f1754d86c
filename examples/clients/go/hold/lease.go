package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	api "clients/build/tollgate/v1"
)

// How long the answers to the first and to the last message may take.
const timeout = 5 * time.Second

// underLease works while it holds a lease. The work's context ends when the lease is lost.
func underLease(service api.LeaseServiceClient, work func(context.Context) error) error {
	// The stream as a whole has no deadline: work may take long. Whatever becomes of the work, or of
	// this process, the lease ends with the stream.
	holding, end := context.WithCancel(context.Background())
	defer end()
	late := time.AfterFunc(timeout, end)
	stream, err := service.Hold(holding)
	if err != nil {
		return err
	}
	// Where this fails, Recv says why.
	_ = stream.Send(&api.HoldRequest{Acquire: what})
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	late.Stop()
	lease := first.GetAcquired()
	if lease.GetRefusal() != nil {
		return refused(lease.GetRefusal())
	}
	fmt.Println("acquired", lease.GetLeaseId())

	working, stop := context.WithCancelCause(holding)
	go follow(stream, stop)
	if err := work(working); err != nil {
		return err
	}
	// The lease is released when this side is closed; then the server closes its own.
	late.Reset(timeout)
	if err := stream.CloseSend(); err != nil {
		return err
	}
	<-working.Done()
	if err := context.Cause(working); !errors.Is(err, errEnded) {
		return fmt.Errorf("not released in time: %w", err)
	}
	return nil
}

// refused is what a refused caller is told. Without RetryAfter, trying again will never help.
func refused(no *api.Refusal) error {
	if no.RetryAfter == nil {
		return fmt.Errorf("refused: %s", no.Message)
	}
	return fmt.Errorf("refused: %stry again in %d s", no.Message, no.RetryAfter.Seconds)
}

var errEnded = errors.New("the lease is lost")

// follow reads how it stands with the lease. Once it is not held any more, the stream ends.
func follow(stream api.LeaseService_HoldClient, stop context.CancelCauseFunc) {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			stop(errEnded)
			return
		} else if err != nil {
			stop(err)
			return
		}
	}
}
