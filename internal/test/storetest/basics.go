package storetest

import (
	"context"
	"errors"
)

var basics = []check{
	{"an open store answers a ping", func(r *rig) {
		r.ok(r.Ping(r.ctx), "ping")
	}},
	{"a store that was closed does not answer", func(r *rig) {
		r.ok(r.Store.Close(), "close")
		r.hold(r.Ping(r.ctx) != nil, "a ping after Close is an error")
	}},
	{"a call whose context has ended is refused", func(r *rig) {
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		_, err := r.GetSchedule(ctx, r.id("any"))
		r.hold(errors.Is(err, context.Canceled), "GetSchedule answers context.Canceled, got %v", err)
	}},
}
