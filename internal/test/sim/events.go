package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/registrar"
)

// publishAfter is how long after the end of all faults events are still published: then a consumer is
// looked at in time.
const publishAfter = 25 * time.Second

// What is published and consumed. Each consumer misses some of the topics.
var (
	topicsOfWorld = []string{"orders", "orders.eu", "bills"}
	subscriptions = [][]string{{"orders"}, {"orders.*", "bills"}, {"bills", "orders"}, {"orders", "orders.*"}}
)

func consumerID(n int) string { return fmt.Sprintf("c%d", n) }

func isConsumer(id string) bool { return id[0] == 'c' }

// consumer draws the definition of a consumer. Its overlap key never changes.
func (w *world) consumer(id string, d dice) schedule.Definition {
	n := uint64(id[len(id)-1])
	def := schedule.Definition{
		ScheduleID: id, WorkflowID: "w", Version: int32(pick(d.of(1), 1, 2)), UserID: fmt.Sprintf("u%d", n%2), Priority: int32(d.of(6).below(2)),
		OverlapPolicy: schedule.OverlapQueue, OverlapKey: pick(w.dice.of(forEvents).of(n), "shared", "shared", id), MaxQueued: 100,
		Consume:      schedule.Consume{Topics: pick(d.of(2), subscriptions...), MaxEvents: uint32(pick(d.of(3), 1, 3, 3, 5, 100, 100))},
		RunTimeoutMS: uint32(w.profile.runTimeout.Milliseconds()), Retry: retryPolicy(d.of(17)), CatchupWindowMS: 3_600_000,
	}
	if w.profile.incidents {
		def.Version = int32(pick(d.of(15), 1, 1, 1, 2, 2, 2, 3)) // there is no version 3
	}
	return def
}

// publication is a request of a publisher. It is known before the call.
type publication struct {
	by     string // in the subject of its events
	number string // in their type
	events []topic.Event
	user   string
	strict bool
	known  []bool // those that were there before it
	calls  int
}

// publisher publishes events of one user, one request after the other.
func (w *world) publisher(n int) {
	defer w.publishing.Add(-1)
	busy := w.dice.of(forEvents + 1).of(uint64(n))
	pause := pick(busy, time.Second, 2*time.Second, 5*time.Second)
	for number := uint64(1); ; number++ {
		d := busy.of(number)
		if w.calm.Load() { // what waits is over in time
			pause = 5 * time.Second
		}
		time.Sleep(d.of(1).span(20*time.Millisecond, pause))
		if w.elapsed() > w.profile.faulty+publishAfter {
			return
		}
		w.publish(n, number, d)
	}
}

// publish publishes some events. Some have been published before, by this or another publisher, and
// then with other data in two of three cases.
func (w *world) publish(n int, number uint64, d dice) {
	p := &publication{by: fmt.Sprintf("p%d", n), number: fmt.Sprintf("%06d", number), user: fmt.Sprintf("u%d", n%2), strict: d.of(2).perMille(150)}
	data := json.RawMessage(fmt.Sprintf(`{"n": %d}`, d.of(3).below(3)))
	for i := range uint64(pick(d.of(4), 1, 1, 2, 5)) {
		e := topic.Event{
			Topic: pick(d.of(5).of(i), topicsOfWorld...), EventID: fmt.Sprintf("%s-%s-%d", p.by, p.number, i), Source: pick(d.of(6).of(i), "", "", "a"),
			Subject: p.by, Type: fmt.Sprintf("%s.%d", p.number, i), Data: data,
		}
		if d.of(7).of(i).perMille(250) {
			e.EventID = fmt.Sprintf("x%d", d.of(8).of(i).below(8))
		}
		p.events = append(p.events, e)
	}
	w.watch.publishes(p)
	var results []topic.Published
	err := w.insist(func(ctx context.Context) (err error) {
		p.calls++
		_, results, err = w.registrar.Publish(ctx, registrar.PublishInput{UserID: p.user, RequestID: p.by + p.number, Events: p.events, Strict: p.strict})
		return err
	})
	w.log.say(w.elapsed(), "publisher %s: request %s of %d events: %v", p.by, p.number, len(p.events), err)
	w.watch.publishAnswered(p, results, err)
}

// publishes is the beginning of a request.
func (l *ledgerWatch) publishes(p *publication) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range p.events {
		p.known = append(p.known, l.published[eventName(p.user, &p.events[i])] != nil)
	}
}

// publishAnswered: what was acknowledged is there, and the answer says what of it was there before.
func (l *ledgerWatch) publishAnswered(p *publication, results []topic.Published, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if errors.Is(err, schedule.ErrKeyConflict) {
			l.coverage.situations[eventRefused].Add(1)
			l.refusedWhole(p)
		}
		return
	}
	if len(results) != len(p.events) {
		l.violation("request %s of %s has %d results of %d events", p.number, p.by, len(results), len(p.events))
		return
	}
	for i := range p.events {
		got, is := results[i], l.published[eventName(p.user, &p.events[i])]
		if is == nil {
			l.violation("event %s of %s was acknowledged, and is not there", p.events[i].EventID, p.by)
			continue
		}
		differs := string(is.Data) != string(p.events[i].Data)
		mine := is.Subject == p.by && is.Type == p.events[i].Type
		if got.Seq != is.Seq || got.Fanout != is.Fanout || got.Differs != differs || got.Duplicate && mine && p.calls == 1 && !p.known[i] || !got.Duplicate && !mine || got.Differs && p.strict {
			l.violation("event %s of %s is answered with %+v, was there before: %t, and is %+v", p.events[i].EventID, p.by, got, p.known[i], is)
		}
		if got.Duplicate {
			l.coverage.situations[eventRepeated].Add(1)
		}
		if got.Differs {
			l.coverage.situations[eventDiffers].Add(1)
		}
	}
}

// refusedWhole: nothing of a request was written that was refused.
func (l *ledgerWatch) refusedWhole(p *publication) {
	for i := range p.events {
		if is := l.published[eventName(p.user, &p.events[i])]; is != nil && is.Subject == p.by && is.Type == p.events[i].Type {
			l.violation("request %s of %s was refused, and event %s is there", p.number, p.by, is.EventID)
		}
	}
}
