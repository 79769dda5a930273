package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Plan gives schedules that are due for planning to decide and writes its decisions.
func (s *Store) Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error) {
	var out schedule.PlanResult
	err := s.fenced(ctx, req.Term, func(t *tx) error {
		t.planUntil = at(req.Now).Add(plannedAhead)
		candidates := t.candidates(req)
		if len(candidates) == 0 {
			return nil
		}
		out.Candidates = len(candidates)
		handed := func(id string) bool {
			return slices.ContainsFunc(candidates, func(c schedule.PlanCandidate) bool { return c.Schedule.ScheduleID == id })
		}
		for _, d := range decide(candidates) {
			if !handed(d.ScheduleID) {
				return fmt.Errorf("a decision on schedule %q, which was not handed out", d.ScheduleID)
			}
			t.decided(&d, req.Now, &out)
		}
		return nil
	})
	if err != nil {
		return schedule.PlanResult{}, fmt.Errorf("plan: %w", err)
	}
	return out, nil
}

// candidates are the schedules that are due to be planned, then those that
// only have late rows.
func (t *tx) candidates(req schedule.PlanRequest) []schedule.PlanCandidate {
	late := make(map[string][]schedule.Run)
	unseen := ledger.UnseenBy(req.Term, req.Now, req.Grace, t.allSeen())
	for _, r := range t.live.due(req.Now) {
		if unseen.Missed(r) { // perhaps of another bucket than its schedule, from before an edit
			late[r.ScheduleID] = append(late[r.ScheduleID], *r)
		}
	}
	var due, others []schedule.PlanCandidate
	for id, s := range t.schedules {
		paused := s.Pause.Paused && (s.Pause.Until.IsZero() || s.Pause.Until.After(req.Now))
		if !s.Alive() || paused || !t.inShard(req.Term, s.QualifiedOverlapKey()) {
			continue
		}
		c := schedule.PlanCandidate{Schedule: *s, Late: late[id], Unreadable: t.unreadable[id]}
		slices.SortFunc(c.Late, func(a, b schedule.Run) int {
			return cmp.Or(a.RunAt.Compare(b.RunAt), slices.Compare(a.Key[:], b.Key[:]))
		})
		switch {
		case !s.PlanAt.IsZero() && !s.PlanAt.After(req.Horizon):
			due = append(due, c)
		case len(c.Late) > 0 && s.PlanFailures == 0:
			others = append(others, c)
		}
	}
	slices.SortFunc(due, func(a, b schedule.PlanCandidate) int {
		return cmp.Or(a.Schedule.PlanAt.Compare(b.Schedule.PlanAt), cmp.Compare(a.Schedule.ScheduleID, b.Schedule.ScheduleID))
	})
	slices.SortFunc(others, func(a, b schedule.PlanCandidate) int {
		return cmp.Or(a.Late[0].RunAt.Compare(b.Late[0].RunAt), cmp.Compare(a.Schedule.ScheduleID, b.Schedule.ScheduleID))
	})
	candidates := append(due, others...)
	candidates = candidates[:min(len(candidates), max(req.Limit, 0))]
	for i := range candidates {
		t.attachBacklog(&candidates[i])
		t.attachPlanned(&candidates[i].Schedule)
	}
	return candidates
}

// attachPlanned adds the slots that have a row to an open backlog.
func (s *Store) attachPlanned(of *schedule.Schedule) {
	if !of.Backlog.Open() {
		return
	}
	of.Planned = nil
	for _, r := range s.runs {
		if r.ScheduleID == of.ScheduleID && r.Trigger.FromSpec() && !r.RunAt.Before(of.Backlog.From) && (of.NextRunAt.IsZero() || r.RunAt.Before(of.NextRunAt)) {
			of.Planned = append(of.Planned, r.RunAt)
		}
	}
	slices.SortFunc(of.Planned, time.Time.Compare)
}

// allSeen returns seen_until of each shard that was ever led.
func (s *Store) allSeen() map[int]time.Time {
	seen := make(map[int]time.Time, len(s.leaders))
	for shard, row := range s.leaders {
		seen[shard] = row.seenUntil
	}
	return seen
}

// attachBacklog adds the definition of a backlog of an older revision.
func (t *tx) attachBacklog(c *schedule.PlanCandidate) {
	b := c.Schedule.Backlog
	if !b.Open() || b.Revision == c.Schedule.Revision {
		return
	}
	if v := t.revisions[revisionID{c.Schedule.ScheduleID, b.Revision}]; v != nil {
		d := v.Definition
		c.BacklogDefinition = &d
	}
}

// decided writes one decision.
func (t *tx) decided(d *schedule.PlanDecision, now time.Time, out *schedule.PlanResult) {
	row := *t.schedules[d.ScheduleID]
	poison := t.unreadable[d.ScheduleID]
	row.PlanAt, row.PlanFailures = at(d.PlanAt), d.Failures
	if d.Failures > 0 {
		out.Failed = append(out.Failed, d.ScheduleID)
		t.put(&row)
		t.note(d.ScheduleID, d.Events, now)
		return
	}
	row.NextRunAt = at(d.NextRunAt)
	row.Backlog = schedule.Backlog{From: at(d.Backlog.From), Until: at(d.Backlog.Until), Revision: d.Backlog.Revision, At: at(d.Backlog.At)}
	if d.EndPause {
		row.Pause = schedule.Pause{}
		t.noteSchedule(nil, &row)
	}
	t.put(&row)
	if poison != nil {
		t.unreadable[d.ScheduleID] = poison
	}
	for i := range d.Rows {
		if t.insert(d.Rows[i], now) {
			out.Inserted++
		}
	}
	out.Rows = append(out.Rows, d.Rows...)
	for i := range d.LateVerdicts {
		r := t.runs[d.LateVerdicts[i].Key]
		if r == nil || r.ScheduleID != d.ScheduleID {
			continue
		}
		after, skip, ok := ledger.JudgeLate(*r, &d.LateVerdicts[i], now)
		if !ok {
			continue
		}
		t.change(r, func(r *schedule.Run) { *r = after })
		if skip != nil {
			out.Skipped = append(out.Skipped, *skip)
		}
	}
	t.note(d.ScheduleID, d.Events, now)
}

// Prune deletes rows that are older than before, up to limit rows of each kind.
func (s *Store) Prune(ctx context.Context, term schedule.Term, before time.Time, limit int) (int, error) {
	pruned := 0
	err := s.fenced(ctx, term, func(t *tx) error {
		before = at(before)
		for _, r := range t.oldest(limit, func(r *schedule.Run) bool { return r.Status.Terminal() && r.UpdatedAt.Before(before) }) {
			t.remove(r)
			pruned++
		}
		pruned += t.pruneEvents(before, limit) + t.pruneRequests(before, limit) + t.pruneDeploys(before, limit) + t.pruneInstances(limit) + t.pruneTerms(before, limit) + t.pruneSchedules(before, limit) + t.pruneAudit(before, limit) + t.pruneBackfills(before, limit) + t.pruneAlerts(before, limit) + t.pruneQueues(before, limit) + t.pruneTopics(before, limit) + t.pruneUniques(t.Now(), limit)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("prune: %w", err)
	}
	return pruned, nil
}

// oldest returns the runs that a prune may delete, in order of their last write.
func (s *Store) oldest(limit int, may func(*schedule.Run) bool) []*schedule.Run {
	var runs []*schedule.Run
	for _, r := range s.runs {
		if may(r) {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *schedule.Run) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), slices.Compare(a.Key[:], b.Key[:]))
	})
	return runs[:min(len(runs), limit)]
}

func (t *tx) pruneEvents(before time.Time, limit int) (pruned int) {
	t.events = slices.DeleteFunc(t.events, func(e schedule.Event) bool {
		old := e.Time.Before(before) && pruned < limit
		if old {
			pruned++
		}
		return old
	})
	return pruned
}

func (t *tx) pruneRequests(before time.Time, limit int) (pruned int) {
	var old []*request
	for _, q := range t.requests {
		if q.createdAt.Before(before) && q.Lease.Until.Before(before) {
			old = append(old, q)
		}
	}
	slices.SortFunc(old, func(a, b *request) int {
		return cmp.Or(a.createdAt.Compare(b.createdAt), slices.Compare(a.Key[:], b.Key[:]))
	})
	for _, q := range old[:min(len(old), limit)] {
		delete(t.requests, q.Key)
		pruned++
	}
	return pruned
}

// pruneQueues deletes requests and events of queues from before an instant.
func (t *tx) pruneQueues(before time.Time, limit int) (pruned int) {
	maps.DeleteFunc(t.enqueued, func(_ enqueueID, r enqueueRecord) bool {
		old := r.createdAt.Before(before) && pruned < limit
		if old {
			pruned++
		}
		return old
	})
	for id, g := range t.jobGroups {
		if !g.EndedAt.IsZero() && g.EndedAt.Before(before) && pruned < limit {
			putUndone(t, t.jobGroups, id, nil, false)
			pruned++
		}
	}
	events := 0
	t.queueLog = slices.DeleteFunc(t.queueLog, func(e schedule.QueueEvent) bool {
		old := e.Time.Before(before) && events < limit
		if old {
			events++
		}
		return old
	})
	return pruned + events + t.pruneShares(before, limit) + t.pruneMinutes(before, limit)
}
