// Package check checks a run of the chaos rig after the fact. It knows the
// promises of docs/semantics.md and nothing of the product's code: which slots
// there should have been it works out with a cron of its own, that looks at
// every second; what took effect it reads in the executor's log; what people
// did, with the times of request and answer, in the journal; and the rest in a
// dump of the database.
//
// It takes no step in a slot's life.
package check

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// Evidence is all that a run left behind.
type Evidence struct {
	Settings record.Settings
	Executor []record.Executor
	Acts     []record.Act
	Faults   []record.Fault
	Runs     []record.Run
	Events   []record.Event
	Writes   []record.Write
	Terms    []record.Term
	Revised  []record.Revision
	Failing  []record.Failing
	Reigns   []record.Reign // by shard and start
	Twice    []record.Twice

	// Of a dose with dispatch queues. The executor's lines are split by whether the run is in one.
	JobCalls  []record.Executor
	Jobs      []record.Job
	JobWrites []record.JobWrite
	JobActs   []record.JobAct
	Groups    []record.Group
	Minutes   []record.Minutes
	Holders   []record.Holder

	Alarms []string // lines of the processes' logs that must not be
}

// Load reads a run's folder.
func Load(folder string) (*Evidence, error) {
	e := &Evidence{}
	text, err := os.ReadFile(filepath.Join(folder, record.SettingsFile))
	if err != nil {
		return nil, fmt.Errorf("read the run's settings: %w", err)
	}
	if err := json.Unmarshal(text, &e.Settings); err != nil {
		return nil, fmt.Errorf("read the run's settings: %w", err)
	}
	for _, read := range []func() error{
		func() (err error) {
			e.Executor, err = record.Read[record.Executor](folder, record.ExecutorFile)
			return
		},
		func() (err error) { e.Acts, err = record.Read[record.Act](folder, record.JournalFile); return },
		func() (err error) { e.Faults, err = record.Read[record.Fault](folder, record.FaultsFile); return },
		func() (err error) { e.Runs, err = record.Read[record.Run](folder, record.RunsFile); return },
		func() (err error) { e.Events, err = record.Read[record.Event](folder, record.EventsFile); return },
		func() (err error) { e.Writes, err = record.Read[record.Write](folder, record.WritesFile); return },
		func() (err error) { e.Failing, err = record.Read[record.Failing](folder, record.FailingFile); return },
		func() (err error) { e.Twice, err = record.Read[record.Twice](folder, record.TwiceFile); return },
		func() (err error) { e.Reigns, err = record.Read[record.Reign](folder, record.ReignsFile); return },
		func() (err error) { e.Terms, err = record.Read[record.Term](folder, record.TermsFile); return },
		func() (err error) { e.Jobs, err = record.Read[record.Job](folder, record.JobsFile); return },
		func() (err error) { e.JobActs, err = record.Read[record.JobAct](folder, record.JobActsFile); return },
		func() (err error) { e.Groups, err = record.Read[record.Group](folder, record.GroupsFile); return },
		func() (err error) { e.Minutes, err = record.Read[record.Minutes](folder, record.MinutesFile); return },
		func() (err error) { e.Holders, err = record.Read[record.Holder](folder, record.HoldersFile); return },
		func() (err error) {
			e.JobWrites, err = record.Read[record.JobWrite](folder, record.JobWritesFile)
			return
		},
		func() (err error) {
			e.Revised, err = record.Read[record.Revision](folder, record.RevisionsFile)
			return
		},
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	workers, err := filepath.Glob(filepath.Join(folder, record.WorkerFiles))
	if err != nil {
		return nil, err
	}
	for _, path := range workers {
		lines, err := record.Read[record.Executor](folder, filepath.Base(path))
		if err != nil {
			return nil, err
		}
		e.Executor = append(e.Executor, lines...)
	}
	slices.SortStableFunc(e.Faults, func(a, b record.Fault) int { return a.Began.Compare(b.Began) })
	e.splitCalls()
	e.Alarms, err = alarms(filepath.Join(folder, record.LogsFolder))
	return e, err
}

// splitCalls sorts out the executor's lines about runs of queues.
func (e *Evidence) splitCalls() {
	queued := make(map[string]bool)
	for _, line := range e.Executor {
		if line.Kind == record.Call && line.Queue != "" {
			queued[line.Key] = true
		}
	}
	var rest []record.Executor
	for _, line := range e.Executor {
		if queued[line.Key] && line.Kind != record.Wrong {
			e.JobCalls = append(e.JobCalls, line)
		} else {
			rest = append(rest, line)
		}
	}
	e.Executor = rest
}

// alarming is what no log may hold.
var alarming = []string{"panic: ", "panic:\t", "DATA RACE", "fatal error:", "goroutine 1 ["}

func alarms(folder string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if slices.ContainsFunc(alarming, func(part string) bool { return strings.Contains(lines.Text(), part) }) {
				found = append(found, filepath.Base(path)+": "+lines.Text())
			}
		}
		_ = file.Close()
	}
	return found, nil
}

// effect is what the executor's log says of a key.
type effect struct {
	scheduleID string
	calls      []record.Executor
	closed     map[int]time.Time // by number of the call
	begun      int
	began      time.Time
	status     string
	ended      time.Time
	said       time.Time
	refused    bool
	cancelled  bool
}

func (e *effect) first() time.Time { return e.calls[0].At }

func (e *effect) String() string {
	if e == nil {
		return "the executor never heard of it"
	}
	return fmt.Sprintf("the executor: %d calls, first at %s by epoch %d, last at %s by epoch %d, begun %d times, status %q at %s, said at %s, refused %t, cancelled %t",
		len(e.calls), clock(e.first()), e.calls[0].Epoch, clock(e.calls[len(e.calls)-1].At), e.calls[len(e.calls)-1].Epoch,
		e.begun, e.status, clock(e.ended), clock(e.said), e.refused, e.cancelled)
}

// effects sorts the executor's log by key.
func effects(lines []record.Executor) map[string]*effect {
	all := make(map[string]*effect)
	for _, line := range lines {
		e := all[line.Key]
		if e == nil {
			if line.Kind != record.Call {
				continue // a cancel or report of something that was never called is a wrong, if anything
			}
			e = &effect{scheduleID: line.ScheduleID, closed: make(map[int]time.Time)}
			all[line.Key] = e
		}
		switch line.Kind {
		case record.Call:
			e.calls = append(e.calls, line)
		case record.Closed:
			e.closed[line.Number] = line.At
		case record.Begin:
			e.begun++
			e.began = line.At
		case record.End:
			e.status, e.ended = line.Status, line.At
		case record.Said:
			e.said = line.At
		case record.Refuse:
			e.refused, e.said, e.ended = true, line.At, line.At
		case record.Cancel:
			e.cancelled, e.said, e.ended = true, line.At, line.At
		}
	}
	return all
}

func clock(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.UTC().Format("15:04:05.000")
}
