package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var basics = []check{
	{"an open store answers a ping", func(r *rig) {
		r.ok(r.Ping(r.ctx), "ping")
	}},
	{"a store that was closed does not answer", func(r *rig) {
		r.ok(r.Store.Close(), "close")
		r.hold(r.Ping(r.ctx) != nil, "a ping after Close is an error")
	}},
	{"a worker may say again and again that it lives", func(r *rig) {
		for range 3 {
			r.ok(r.Heartbeat(r.ctx, schedule.WorkerSeen{WorkerID: r.id("worker"), StartedAt: r.now}), "heartbeat")
		}
		r.ok(r.Heartbeat(r.ctx, schedule.WorkerSeen{WorkerID: r.id("other"), StartedAt: r.at(time.Second)}), "heartbeat of another")
	}},
	{"a call whose context has ended is refused", func(r *rig) {
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		_, err := r.GetSchedule(ctx, r.id("any"))
		r.hold(errors.Is(err, context.Canceled), "GetSchedule answers context.Canceled, got %v", err)
	}},
}
