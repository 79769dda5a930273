package e2e_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// definition is the body of an upsert.
type definition struct {
	ScheduleID    string    `json:"schedule_id"`
	WorkflowID    string    `json:"workflow_id"`
	Version       int       `json:"version"`
	UserID        string    `json:"user_id"`
	CronExpr      string    `json:"cron_expr,omitzero"`
	IntervalMS    int       `json:"interval_ms,omitzero"`
	OnceAt        time.Time `json:"once_at,omitzero"`
	Timezone      string    `json:"timezone,omitzero"`
	StartAt       time.Time `json:"start_at,omitzero"`
	EndAt         time.Time `json:"end_at,omitzero"`
	JitterMS      int       `json:"jitter_ms,omitzero"`
	OverlapPolicy string    `json:"overlap_policy,omitzero"`
	OverlapKey    string    `json:"overlap_key,omitzero"`
	MaxQueued     int       `json:"max_queued,omitzero"`
	CatchupPolicy string    `json:"catchup_policy,omitzero"`
	RunTimeoutMS  int       `json:"run_timeout_ms,omitzero"`
	Input         any       `json:"input,omitzero"`
}

// registered is a schedule as the test journals it.
type registered struct {
	definition definition
	before     definition // until the edit that ended it
	createdAt  time.Time
	lapses     []lapse // pauses with their ends, as the schedule's log says
	stoppedAt  time.Time
	changedAt  time.Time // by the last edit
	quietFrom  time.Time // the answer to a pause or deletion: soon nothing more is sent
}

// lapse is a time in which no slot falls.
type lapse struct{ from, until time.Time }

// runTimeout bounds runs whose end nobody learns: it must be longer than any
// run and outage of these tests, and is waited for at their end.
const runTimeout = 15 * time.Second

// workload is what all the tests of crashes register: every policy, every kind
// of spec, many of them due every second.
func workload(now time.Time) []definition {
	soon := now.UTC().Truncate(time.Second)
	all := []definition{
		{ScheduleID: "replace-1s", CronExpr: "* * * * * *", OverlapPolicy: "replace"},
		{ScheduleID: "replace-2s", CronExpr: "*/2 * * * * *", OverlapPolicy: "replace", CatchupPolicy: "fire_immediately"},
		{ScheduleID: "replace-every-3s", IntervalMS: 3000, OverlapPolicy: "replace", CatchupPolicy: "latest"},
		{ScheduleID: "replace-5s", CronExpr: "*/5 * * * * *", OverlapPolicy: "replace", JitterMS: 1000},
		{ScheduleID: "paused-in-between", CronExpr: "* * * * * *", OverlapPolicy: "allow"},
		{ScheduleID: "edited-allow", CronExpr: "* * * * * *", OverlapPolicy: "allow"},
		{ScheduleID: "edited-skip", CronExpr: "*/2 * * * * *", OverlapPolicy: "skip", CatchupPolicy: "fire_immediately"},
		{ScheduleID: "allow-1s", CronExpr: "* * * * * *", OverlapPolicy: "allow"},
		{ScheduleID: "allow-1s-caught-up", CronExpr: "* * * * * *", OverlapPolicy: "allow", CatchupPolicy: "fire_immediately"},
		{ScheduleID: "allow-1s-spread", CronExpr: "* * * * * *", OverlapPolicy: "allow", CatchupPolicy: "spread"},
		{ScheduleID: "allow-2s-jitter", CronExpr: "*/2 * * * * *", OverlapPolicy: "allow", JitterMS: 700},
		{ScheduleID: "allow-3s-jitter-latest", CronExpr: "*/3 * * * * *", OverlapPolicy: "allow", JitterMS: 5000, CatchupPolicy: "latest"},
		{ScheduleID: "allow-odd", CronExpr: "1-59/2 * * * * *", OverlapPolicy: "allow", Timezone: "Asia/Kolkata"},
		{ScheduleID: "allow-list", CronExpr: "0,7,11-13,30-44/3,58 * * * * *", OverlapPolicy: "allow", Timezone: "Asia/Kathmandu"},
		{ScheduleID: "allow-every-2s", IntervalMS: 2000, OverlapPolicy: "allow"},
		{ScheduleID: "allow-every-3s-from", IntervalMS: 3000, StartAt: soon.Add(7 * time.Second), OverlapPolicy: "allow", CatchupPolicy: "latest"},
		{ScheduleID: "allow-until", CronExpr: "* * * * * *", OverlapPolicy: "allow", EndAt: soon.Add(15 * time.Second)},
		{ScheduleID: "once", OnceAt: soon.Add(9 * time.Second), OverlapPolicy: "allow", CatchupPolicy: "latest"},
		{ScheduleID: "skip-1s", CronExpr: "* * * * * *", OverlapPolicy: "skip"},
		{ScheduleID: "skip-1s-caught-up", CronExpr: "* * * * * *", CatchupPolicy: "fire_immediately"},
		{ScheduleID: "skip-2s", CronExpr: "*/2 * * * * *", OverlapPolicy: "skip", Timezone: "Asia/Tokyo"},
		{ScheduleID: "skip-2s-jitter", CronExpr: "*/2 * * * * *", OverlapPolicy: "skip", JitterMS: 900},
		{ScheduleID: "skip-every-3s", IntervalMS: 3000, OverlapPolicy: "skip", CatchupPolicy: "latest"},
		{ScheduleID: "skip-5s", CronExpr: "*/5 * * * * *", OverlapPolicy: "skip", CatchupPolicy: "spread"},
		{ScheduleID: "skip-shared-a", CronExpr: "*/2 * * * * *", OverlapPolicy: "skip", OverlapKey: "shared"},
		{ScheduleID: "queue-shared-b", CronExpr: "*/5 * * * * *", OverlapPolicy: "queue", OverlapKey: "shared"},
		{ScheduleID: "queue-1s", CronExpr: "* * * * * *", OverlapPolicy: "queue", CatchupPolicy: "latest"},
		{ScheduleID: "queue-1s-one", CronExpr: "* * * * * *", OverlapPolicy: "queue", MaxQueued: 1, CatchupPolicy: "spread"},
		{ScheduleID: "queue-2s", CronExpr: "*/2 * * * * *", OverlapPolicy: "queue", CatchupPolicy: "fire_immediately"},
		{ScheduleID: "queue-every-3s", IntervalMS: 3000, OverlapPolicy: "queue"},
		{ScheduleID: "queue-5s-jitter", CronExpr: "*/5 * * * * *", OverlapPolicy: "queue", JitterMS: 2000},
	}
	for i := range all {
		all[i].WorkflowID, all[i].Version, all[i].UserID = "oracle", 1, "ada"
		all[i].RunTimeoutMS = int(runTimeout.Milliseconds())
		all[i].Input = map[string]any{"n": i, "text": "ä<&>\u2028"}
	}
	return all
}

// journal is what the test did, for the checker and for people.
type journal struct {
	mu        sync.Mutex
	lines     []journalLine
	outages   []lapse // from a kill until that process was ready again
	ended     time.Time
	schedules map[string]*registered
}

type journalLine struct {
	at   time.Time
	text string
}

func newJournal() *journal { return &journal{schedules: make(map[string]*registered)} }

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, journalLine{time.Now(), fmt.Sprintf(format, args...)})
}

// outage notes that a process was down since an instant.
func (j *journal) outage(name string, since time.Time) {
	j.note("%s is ready again", name)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.outages = append(j.outages, lapse{since, time.Now()})
}

func (j *journal) killedBetween(from, until time.Time) bool { return j.outageBetween(from, until) > 0 }

// outageBetween is how long a process was down within a time.
func (j *journal) outageBetween(from, until time.Time) time.Duration {
	total := time.Duration(0)
	for _, o := range j.outages {
		begin, end := laterOf(from, o.from), until
		if o.until.Before(end) {
			end = o.until
		}
		total += max(0, end.Sub(begin))
	}
	return total
}

// around is what happened within two seconds of an instant.
func (j *journal) around(at time.Time) []journalLine {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []journalLine
	for _, line := range j.lines {
		if line.at.Sub(at).Abs() <= 2*time.Second {
			found = append(found, line)
		}
	}
	return found
}

// deploy makes the workflow known to the launcher.
func deployOracle(api *rest) {
	api.t.Helper()
	api.do(http.MethodPut, "/v1/workflows/oracle/versions/1", `{"dag": {"workflow_id": "oracle", "version": 1, "steps": []}}`, nil)
}

// register upserts a schedule; again is an edit that keeps its slots.
func (j *journal) register(api *rest, d definition) {
	api.t.Helper()
	api.do(http.MethodPost, "/schedules/upsert", d, nil)
	var found struct {
		Schedule struct {
			CreatedAt time.Time `json:"created_at"`
			Revision  int       `json:"revision"`
		} `json:"schedule"`
	}
	api.do(http.MethodGet, "/v1/schedules/"+d.ScheduleID, nil, &found)
	j.note("%s is registered, revision %d", d.ScheduleID, found.Schedule.Revision)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.schedules[d.ScheduleID] = &registered{definition: d, before: d, createdAt: found.Schedule.CreatedAt}
}

// stop ends a schedule in one of three ways.
func (j *journal) stop(api *rest, index int, id string) {
	api.t.Helper()
	s := j.schedules[id]
	switch index % 3 {
	case 0:
		api.do(http.MethodPost, "/v1/schedules/"+id+":pause", `{"note": "the end"}`, nil)
		s.quietFrom = time.Now()
		j.note("%s is paused", id)
	case 1:
		api.do(http.MethodDelete, "/v1/schedules/"+id, nil, nil)
		s.quietFrom = time.Now()
		j.note("%s deleted", id)
	default:
		last := ceilSecond(time.Now().Add(time.Second))
		if end := s.definition.EndAt; end.IsZero() || last.Before(end) {
			s.definition.EndAt = last
		}
		if !s.definition.OnceAt.IsZero() {
			return // it ends by itself
		}
		api.do(http.MethodPost, "/schedules/upsert", s.definition, nil)
		j.note("%s ends at %s", id, clock(s.definition.EndAt))
	}
}

// settle reads from each schedule's log when it was paused, resumed and ended.
func (j *journal) settle(t testing.TB, events map[string][]event) {
	t.Helper()
	for id, s := range j.schedules {
		var paused time.Time
		log := events[id]
		for i := len(log) - 1; i >= 0; i-- { // newest first
			switch log[i].Kind {
			case "paused":
				if paused.IsZero() { // else only its note is new
					paused = log[i].Time
				}
			case "resumed":
				s.lapses = append(s.lapses, lapse{paused, log[i].Time})
				paused = time.Time{}
			case "changed":
				s.changedAt = log[i].Time
			case "deleted":
				s.stoppedAt = log[i].Time
			}
		}
		if !paused.IsZero() { // never resumed
			s.stoppedAt = paused
		}
		if s.stoppedAt.IsZero() {
			s.stoppedAt = s.definition.EndAt
		}
		if s.stoppedAt.IsZero() {
			s.stoppedAt = s.definition.OnceAt
		}
		if s.stoppedAt.IsZero() {
			t.Fatalf("%s was never stopped: %v", id, log)
		}
	}
}
