package launchertest

import (
	"context"
	"sync"

	"github.com/carillon/carillon/internal/schedule"
)

// Each starts batches by calls of Start, each in a goroutine of its own.
type Each struct {
	Start func(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error)
}

// StartAll returns when all are answered.
func (e Each) StartAll(ctx context.Context, reqs []schedule.StartRequest, answer func(i int, reply schedule.StartReply, err error)) {
	e.StartBatch(ctx, reqs, nil, answer)
}

// StartBatch cancels the context of a start that is withdrawn.
func (e Each) StartBatch(ctx context.Context, reqs []schedule.StartRequest, withdrawn <-chan int, answer func(i int, reply schedule.StartReply, err error)) {
	var open sync.WaitGroup
	cancels := make([]context.CancelFunc, len(reqs))
	for i := range reqs {
		one, cancel := context.WithCancel(ctx)
		cancels[i] = cancel
		open.Go(func() {
			defer cancel()
			reply, err := e.Start(one, reqs[i])
			answer(i, reply, err)
		})
	}
	answered := make(chan struct{})
	go func() { open.Wait(); close(answered) }()
	for {
		select {
		case i := <-withdrawn:
			cancels[i]()
		case <-answered:
			return
		}
	}
}
