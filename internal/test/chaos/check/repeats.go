package check

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// repeats is I13: a repeated request takes effect once, whether a person or a client
// repeats it after a lost answer.
func (c *checker) repeats() {
	for _, act := range c.Acts {
		if act.Same {
			c.repeated(act)
		}
	}
	c.requests()
	c.revised()
	c.loggedOnce()
}

func at(act record.Act) record.Run {
	return record.Run{RunAt: act.Asked, ScheduleID: act.ScheduleID, Key: act.Key}
}

// repeated: a repetition is answered 200, does not change the schedule, and neither
// removes nor moves planned slots.
func (c *checker) repeated(act record.Act) {
	c.report.Counts.Repeats++
	if act.Refused != "" {
		c.violate("I13", at(act), "repeating %s is refused: %s", act.Verb, act.Refused)
	}
	if act.Was != nil && act.Is != nil && (act.Was.Revision != act.Is.Revision || !act.Was.UpdatedAt.Equal(act.Is.UpdatedAt)) {
		c.violate("I13", at(act), "repeating %s turns revision %d, updated_at %s into revision %d, updated_at %s",
			act.Verb, act.Was.Revision, clock(act.Was.UpdatedAt), act.Is.Revision, clock(act.Is.UpdatedAt))
	}
	if act.Verb == record.Trigger {
		return
	}
	for _, w := range c.Writes {
		changes := w.Before == "PLANNED" && (w.Writer == "registrar" || w.After == "") // on SQLite all is written by one process
		if changes && w.ScheduleID == act.ScheduleID && !w.At.Before(act.Asked) && !w.At.After(act.Answered) {
			r := c.written(w)
			r.ScheduleID = act.ScheduleID
			c.violate("I13", r, "repeating %s from %s to %s turns a planned row into %q", act.Verb, clock(act.Asked), clock(act.Answered), w.After)
		}
	}
}

// requests: the same request_id is the same schedule, and the same run.
func (c *checker) requests() {
	schedules := make(map[string]string)
	asked := make(map[string]bool) // keys of runs by hand
	for _, act := range c.Acts {
		if act.Verb == record.Trigger {
			asked[act.Key] = true
		}
		switch {
		case act.RequestID == "" || act.Refused != "":
		case act.Verb == record.Upsert:
			if first, known := schedules[act.RequestID]; known && first != act.ScheduleID {
				c.violate("I13", at(act), "the request %s made %s, and now %s", act.RequestID, first, act.ScheduleID)
			}
			schedules[act.RequestID] = act.ScheduleID
		case act.Verb == record.Trigger:
			if want := manualKey(act.ScheduleID, act.RequestID); act.Key != want {
				c.violate("I13", at(act), "the trigger %s is answered with the run %.12s; want %.12s", act.RequestID, act.Key, want)
			}
			if _, known := c.ledger[act.Key]; !known {
				c.violate("I13", at(act), "the trigger %s was answered, and there is no row", act.RequestID)
			}
		}
	}
	for _, r := range c.Runs {
		if r.Trigger == "manual" && !asked[r.Key] {
			c.violate("I13", r, "nobody asked for this run, or it is the second of one request")
		}
	}
}

// manualKey returns the documented key of a manual run.
func manualKey(scheduleID, requestID string) string {
	sum := sha256.Sum256([]byte(scheduleID + "/m/" + requestID))
	return hex.EncodeToString(sum[:])
}

// revised: each change makes the next revision, everything else none; and the
// database keeps these and no others.
func (c *checker) revised() {
	if len(c.Revised) == 0 {
		return // evidence from before they were dumped
	}
	type stand struct {
		revision int
		def      string
	}
	stands := make(map[string]stand)
	answered := make(map[string]bool)
	name := func(id string, revision int) string { return fmt.Sprint(id, " revision ", revision) }
	for _, act := range c.Acts {
		s := stands[act.ScheduleID]
		switch act.Verb {
		case record.Delete:
			s.def = "" // whatever comes next is new
		case record.Upsert:
			text, err := json.Marshal(act.Definition)
			if err != nil {
				text = []byte(err.Error())
			}
			if act.Refused == "" && s.def != string(text) {
				s.revision, s.def = s.revision+1, string(text)
			}
			if act.Revision != s.revision {
				c.violate("I13", at(act), "it stands at revision %d after this upsert; want %d", act.Revision, s.revision)
				s.revision = act.Revision
			}
			answered[name(act.ScheduleID, act.Revision)] = true
		}
		stands[act.ScheduleID] = s
	}
	for _, r := range c.Revised {
		if !answered[name(r.ScheduleID, r.Revision)] {
			c.violate("I13", record.Run{RunAt: r.CreatedAt, ScheduleID: r.ScheduleID}, "nobody made its revision %d", r.Revision)
		}
		delete(answered, name(r.ScheduleID, r.Revision))
	}
	for missing := range answered {
		id, _, _ := strings.Cut(missing, " ")
		c.violate("I13", record.Run{RunAt: c.stopped, ScheduleID: id}, "%s was answered, and the database does not have it", missing)
	}
}

// loggedOnce: the log of a schedule has each change once.
func (c *checker) loggedOnce() {
	words := map[string]string{
		record.Pause: "paused", record.Resume: "resumed", record.Delete: "deleted", record.Trigger: "triggered",
	}
	type change struct{ id, kind string }
	balance := make(map[change]int)
	for _, act := range c.Acts {
		if kind := words[act.Verb]; kind != "" && !act.Same {
			balance[change{act.ScheduleID, kind}]--
		}
	}
	for _, e := range c.Events {
		if slices.Contains([]string{"paused", "resumed", "deleted", "triggered"}, e.Kind) {
			balance[change{e.ScheduleID, e.Kind}]++
		}
	}
	for d, n := range balance {
		if n > 0 {
			c.violate("I13", record.Run{RunAt: c.stopped, ScheduleID: d.id}, "its log says %s %d times more often than it was requested", d.kind, n)
		}
	}
}
