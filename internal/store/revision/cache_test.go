package revision

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func candidate(id string, revision int64) schedule.PlanCandidate {
	return schedule.PlanCandidate{Schedule: schedule.Schedule{
		Definition: schedule.Definition{ScheduleID: id, WorkflowID: "of " + id}, Revision: revision,
	}}
}

func rowOf(id string, revision int64) schedule.Run {
	return schedule.Run{ScheduleID: id, Revision: revision}
}

func TestOnlyWhatWasPlannedIsKept(t *testing.T) {
	var c Cache
	unreadable := candidate("unreadable", 1)
	unreadable.Unreadable = fmt.Errorf("a row that is beyond us")
	c.KeepPlanned(
		[]schedule.PlanCandidate{candidate("planned", 3), candidate("idle", 1), candidate("edited", 2), unreadable},
		[]schedule.Run{rowOf("planned", 3), rowOf("planned", 3), rowOf("edited", 1), rowOf("unreadable", 1)},
	)
	known, missing := c.Known(slices.Values([]ID{{ScheduleID: "planned", Revision: 3}, {ScheduleID: "idle", Revision: 1}, {ScheduleID: "edited", Revision: 2}, {ScheduleID: "edited", Revision: 1}, {ScheduleID: "unreadable", Revision: 1}, {ScheduleID: "idle", Revision: 1}}))
	if len(known) != 1 || known[ID{ScheduleID: "planned", Revision: 3}].WorkflowID != "of planned" {
		t.Errorf("known is %v, want the planned one alone", known)
	}
	if want := []ID{{ScheduleID: "idle", Revision: 1}, {ScheduleID: "edited", Revision: 2}, {ScheduleID: "edited", Revision: 1}, {ScheduleID: "unreadable", Revision: 1}}; !slices.Equal(missing, want) {
		t.Errorf("missing is %v, want %v", missing, want)
	}
}

func TestTheCacheHoldsABurstOfAHundredThousandAndNoMoreThanItsBytes(t *testing.T) {
	var c Cache
	for i := range 100_000 {
		c.Keep(map[ID]*schedule.Definition{{ScheduleID: fmt.Sprint(i), Revision: 1}: {}})
	}
	if n := len(c.known); n != 100_000 {
		t.Errorf("%d of 100000 definitions are kept", n)
	}
	for i := range 100 {
		c.Keep(map[ID]*schedule.Definition{{ScheduleID: fmt.Sprint(i), Revision: 2}: {
			Input: make(json.RawMessage, 1<<20), Labels: map[string]string{"team": "a"},
		}})
	}
	sum := 0
	for _, d := range c.known {
		sum += sizeOf(d)
	}
	if c.size != sum || sum > cacheBytes || sum < cacheBytes-2<<20 {
		t.Errorf("%d bytes are counted, %d kept, want at most %d and nearly that", c.size, sum, cacheBytes)
	}
}

func TestWhatIsKeptIsForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := ID{ScheduleID: "s", Revision: 1}
		var c Cache
		c.Keep(map[ID]*schedule.Definition{id: {WorkflowID: "first"}})
		time.Sleep(cacheAge)
		if known, _ := c.Known(slices.Values([]ID{id})); known[id] == nil {
			t.Error("forgotten before its time")
		}
		time.Sleep(time.Second)
		if known, missing := c.Known(slices.Values([]ID{id})); known[id] != nil || len(missing) != 1 {
			t.Error("kept beyond its time: an id that was pruned elsewhere may have begun again")
		}
		c.Keep(map[ID]*schedule.Definition{id: {WorkflowID: "second"}})
		c.Forget()
		if known, _ := c.Known(slices.Values([]ID{id})); known[id] != nil {
			t.Error("kept although its id may begin again")
		}
	})
}

func TestADefinitionIsReadAsItWasWritten(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 0, 0, 123456789, time.FixedZone("", 3600))
	text, err := Encode(&schedule.Definition{ScheduleID: "s", OnceAt: at, Input: json.RawMessage(`{ "a":  1 }`)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if string(d.Input) != `{ "a":  1 }` || !d.OnceAt.Equal(at.Truncate(time.Microsecond)) {
		t.Errorf("input %s at %v, want it byte for byte, to the microsecond", d.Input, d.OnceAt)
	}
	if _, err := Decode(`{"input":`); err == nil {
		t.Error("half a definition is read")
	}
}
