package storetest

import (
	"encoding/json"

	"github.com/carillon/carillon/internal/schedule"
)

func eventFilter(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"}, func(s *schedule.Schedule) {
		s.Consume.Filter = json.RawMessage(`{"data":{"status":["FAILED"],"amount":[{"numeric":[">",100]}]}}`)
	})
	all := r.consumer("all", []string{"orders"})
	const failed, paid = `{"status": "FAILED", "amount": 100.5}`, `{"status": "PAID", "amount": 200}`
	fanouts := func(ids ...string) (n []int) {
		for _, p := range r.publish("orders", ids...) {
			n = append(n, p.Fanout)
		}
		return n
	}
	equal(r, "fanouts", fanouts("a="+failed, "b="+paid, "c={}"), []int{2, 1, 1})
	equal(r, "inbox", r.inbox(s), []string{"a pending"})
	equal(r, "the inbox of another", r.inbox(all), []string{"a pending", "b pending", "c pending"})
	r.hold(len(e.look()) == 2, "both consumers run")

	s = r.revise(s, func(s *schedule.Schedule) { s.Consume.Filter = json.RawMessage(`{"data":{"status":["PAID"]}}`) })
	equal(r, "duplicates keep their fanout", fanouts("b="+paid), []int{1})
	equal(r, "fanouts under the new filter", fanouts("d="+failed, "e="+paid), []int{1, 2})
	equal(r, "inbox", r.inbox(s), []string{"a reserved", "e pending"})

	p := r.publication("orders", "f="+failed)
	p.RequireSubscriber = true
	_, err := r.Publish(r.ctx, p)
	r.ok(err, "one consumer is enough")
	r.delete(all)
	p = r.publication("orders", "g="+failed)
	p.RequireSubscriber = true
	_, err = r.Publish(r.ctx, p)
	r.hold(err != nil, "an event that no filter lets in has no subscriber")
}

func eventPending(r *rig) {
	e := r.events()
	r.consumer("a", []string{"orders"}, func(s *schedule.Schedule) { s.Consume.MaxEvents = 2 })
	r.consumer("b", []string{"orders"}, func(s *schedule.Schedule) { s.Pause.Paused = true })
	r.consumer("other", []string{"orders"}, func(s *schedule.Schedule) { s.UserID = r.user + "2" })
	pending := func(limit, want int) {
		r.Helper()
		n, err := r.CountPendingOf(r.ctx, r.user, limit)
		r.ok(err, "count")
		r.hold(n == want, "%d events are pending, got %d", want, n)
	}
	pending(10, 0)
	r.publish("orders", "1", "2", "3")
	r.publish("unrouted", "4")
	other := r.publication("orders", "5")
	other.UserID = r.user + "2"
	_, err := r.Publish(r.ctx, other)
	r.ok(err, "another owner publishes")
	pending(10, 6)
	pending(4, 4)
	r.hold(len(e.look()) == 2, "the consumer runs, and that of the other owner")
	pending(10, 4)
}
