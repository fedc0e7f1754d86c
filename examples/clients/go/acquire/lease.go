package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	api "clients/build/tollgate/v1"
)

// No call may hang for ever. A call that waits for a slot (Wait) needs that much more.
const timeout = 5 * time.Second

// underLease works while it holds a lease. The work's context ends when the lease is lost.
func underLease(service api.LeaseServiceClient, work func(context.Context) error) (err error) {
	acquiring, done := context.WithTimeout(context.Background(), timeout)
	defer done()
	lease, err := service.Acquire(acquiring, &api.AcquireRequest{
		Domain: domain, Descriptors: descriptors,
		// Without a limit it would hold nothing: where the rules have none for it, that is an error.
		RequireLimit: true,
	})
	if err != nil {
		return err
	}
	if lease.Refusal != nil {
		return refused(lease.Refusal)
	}
	fmt.Println("acquired", lease.LeaseId)

	working, stop := context.WithCancelCause(context.Background())
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		renew(working, stop, service, lease)
	}()
	// Whatever becomes of the work. Should this call fail, or the process be killed, the slot comes
	// free when the lease's time is over.
	defer func() {
		stop(nil)
		<-renewed
		releasing, done := context.WithTimeout(context.Background(), timeout)
		defer done()
		_, failed := service.Release(releasing, &api.ReleaseRequest{LeaseId: lease.LeaseId})
		err = errors.Join(err, failed)
	}()
	return work(working)
}

// refused is what a refused caller is told. Without RetryAfter, trying again will never help.
func refused(no *api.Refusal) error {
	if no.RetryAfter == nil {
		return fmt.Errorf("refused: %s", no.Message)
	}
	return fmt.Errorf("refused: %stry again in %d s", no.Message, no.RetryAfter.Seconds)
}

// renew renews the lease a third of the way to its end, so that one renewal may fail, and another. Where
// the lease is lost, it stops the work.
func renew(
	working context.Context, stop context.CancelCauseFunc,
	service api.LeaseServiceClient, lease *api.AcquireResponse,
) {
	ticks := time.NewTicker(lease.ExpiresIn.AsDuration() / 3)
	defer ticks.Stop()
	for {
		select {
		case <-working.Done():
			return
		case <-ticks.C:
		}
		renewing, done := context.WithTimeout(working, timeout)
		// With what was asked for, a lease that the server has forgotten is taken again.
		answer, err := service.Renew(renewing, &api.RenewRequest{
			LeaseId: lease.LeaseId, Domain: domain, Descriptors: descriptors,
		})
		done()
		if err == nil && answer.ExpiresIn == nil {
			stop(errors.New("the lease is lost"))
		}
	}
}
