package ledger_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func pullKeys(letters string) (keys []schedule.Key) {
	for _, letter := range []byte(letters) {
		keys = append(keys, schedule.Key{letter})
	}
	return keys
}

func pullLetters(keys []schedule.Key) (letters string) {
	for _, key := range keys {
		letters += string(key[0])
	}
	return letters
}

func TestAFetchIsAnsweredFromTheRunsOfItsWorker(t *testing.T) {
	held := func(letter byte, slot int32) schedule.HeldRun {
		return schedule.HeldRun{Key: schedule.Key{letter}, QueueNo: 1, Slot: slot}
	}
	cancelled, elsewhere := held('x', 1), held('y', 1)
	cancelled.Cancel, elsewhere.QueueNo = true, 2
	for _, test := range []struct {
		name          string
		held          []schedule.HeldRun
		slots         int32
		running       string
		again, cancel string
		full          bool
	}{
		{name: "a worker without runs", slots: 1},
		{name: "a run that it lists", held: []schedule.HeldRun{held('a', 1)}, slots: 1, running: "a", full: true},
		{name: "a run that it lists twice", held: []schedule.HeldRun{held('a', 1)}, slots: 2, running: "aa"},
		{name: "a run that it does not list is given again", held: []schedule.HeldRun{held('a', 1)}, slots: 1, again: "a"},
		{name: "one of two is given again", held: []schedule.HeldRun{held('a', 1), held('b', 2)}, slots: 3, running: "b", again: "a"},
		{name: "a run that has ended takes a slot while it is listed", slots: 1, running: "z", cancel: "z", full: true},
		{name: "a cancelled run that it lists", held: []schedule.HeldRun{cancelled}, slots: 1, running: "x", cancel: "x", full: true},
		{name: "a cancelled run that it never received", held: []schedule.HeldRun{cancelled}, slots: 1, full: true},
		{name: "a run of another queue takes a slot, and is not given again", held: []schedule.HeldRun{elsewhere}, slots: 1, full: true},
		{name: "fewer slots than runs", held: []schedule.HeldRun{held('a', 1), held('b', 2)}, slots: 1, running: "ab", full: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := ledger.QueueFacts{Queue: &schedule.Queue{No: 1, QueueDefinition: schedule.QueueDefinition{QueueID: "q", Delivery: schedule.DeliveryPull, MaxInFlight: 10}}, Held: test.held}
			fetch := &schedule.Fetch{Worker: "me/w", Slots: test.slots, Running: pullKeys(test.running), Waits: true}
			req := &schedule.AdmitRequest{Now: time.Unix(1000, 0), Free: 100, Fetch: fetch}
			got := ledger.AdmitRuns(req, &f, ledger.ChooseRuns(req, &f), nil).Fetched
			if again, cancel := pullLetters(got.Again), pullLetters(got.Cancel); again != test.again || cancel != test.cancel {
				t.Errorf("it gives %q again and cancels %q, want %q and %q", again, cancel, test.again, test.cancel)
			}
			if refused := errors.Is(f.CheckFetch(fetch), schedule.ErrPrecondition); refused != test.full {
				t.Errorf("refused: %t, want %t", refused, test.full)
			}
			if room := f.Room(req); room > 0 == (test.full || test.again != "" && int(test.slots) <= len(test.held)) {
				t.Errorf("it takes %d runs", room)
			}
		})
	}
}

func TestAPullQueueIsNeverPushed(t *testing.T) {
	f := ledger.QueueFacts{Queue: &schedule.Queue{No: 1, QueueDefinition: schedule.QueueDefinition{QueueID: "q", Delivery: schedule.DeliveryPull, MaxInFlight: 10}}}
	push := &schedule.AdmitRequest{Now: time.Unix(1000, 0), Free: 100}
	if room := f.Room(push); room != 0 {
		t.Errorf("a launcher takes %d runs", room)
	}
	if block := ledger.ChooseRuns(push, &f).All; block == nil || block.What != ledger.BlockedByWorker {
		t.Errorf("what blocks it: %+v", block)
	}
}

func TestDefinitionsOfPullQueuesAreChecked(t *testing.T) {
	for _, test := range []struct {
		name   string
		edit   func(*schedule.QueueDefinition)
		fields []string
	}{
		{"a push queue", func(*schedule.QueueDefinition) {}, nil},
		{"a pull queue", func(d *schedule.QueueDefinition) { d.Delivery, d.Workers = "pull", []string{"a", "b"} }, nil},
		{"a third way", func(d *schedule.QueueDefinition) { d.Delivery = "post" }, []string{"delivery"}},
		{"settings of the other way", func(d *schedule.QueueDefinition) { d.HeartbeatMS, d.Workers = 5000, []string{"a"} }, []string{"heartbeat_ms", "workers"}},
		{"a heartbeat under a second", func(d *schedule.QueueDefinition) { d.Delivery, d.HeartbeatMS = "pull", 999 }, []string{"heartbeat_ms"}},
		{"a heartbeat over an hour", func(d *schedule.QueueDefinition) { d.Delivery, d.HeartbeatMS = "pull", 3_600_001 }, []string{"heartbeat_ms"}},
		{"a worker twice", func(d *schedule.QueueDefinition) { d.Delivery, d.Workers = "pull", []string{"a", "a"} }, []string{"workers"}},
		{"a worker without a name", func(d *schedule.QueueDefinition) { d.Delivery, d.Workers = "pull", []string{""} }, []string{"workers"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := schedule.QueueDefinition{QueueID: "q", UserID: "ada"}
			test.edit(&d)
			d = d.Resolved(1)
			var c schedule.Collect
			d.Check(&c)
			var fields []string
			if invalid, ok := errors.AsType[*schedule.InvalidError](c.Err()); ok {
				for _, f := range invalid.Violations {
					fields = append(fields, f.Field)
				}
			}
			if !slices.Equal(fields, test.fields) {
				t.Errorf("it refuses %v, want %v", fields, test.fields)
			}
		})
	}
}
