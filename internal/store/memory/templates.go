package memory

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// useTemplates notes that templates are used, so that no retention deletes them.
func (t *tx) useTemplates(req *schedule.EnqueueRequest) error {
	for _, id := range req.Templates {
		row := t.schedules[id]
		if row == nil || !row.Alive() {
			return fmt.Errorf("use the template %s: %w", schedule.Quote(id), schedule.ErrTemplateGone)
		}
		row = copyOf(row)
		row.UpdatedAt = at(req.Now)
		t.put(row)
	}
	return nil
}

// pruneSchedules deletes tombstones and unused templates. It counts revisions as well, as the other
// stores do.
func (t *tx) pruneSchedules(before time.Time, limit int) (pruned int) {
	used := make(map[string]bool)
	for _, r := range t.runs {
		used[r.ScheduleID] = true
	}
	for i := range t.events {
		used[t.events[i].ScheduleID] = true
	}
	for _, g := range t.jobGroups {
		if c := g.OnComplete; c != nil && g.EndedAt.IsZero() {
			used[c.ScheduleID] = true
		}
	}
	var ids, templates []string
	for id, s := range t.schedules {
		switch {
		case used[id]:
		case !s.Alive() && s.DeletedAt.Before(before):
			ids = append(ids, id)
		case s.Alive() && s.OfQueue() && s.UpdatedAt.Before(before):
			templates = append(templates, id)
		}
	}
	slices.Sort(ids)
	slices.SortFunc(templates, func(a, b string) int {
		return cmp.Or(t.schedules[a].UpdatedAt.Compare(t.schedules[b].UpdatedAt), cmp.Compare(a, b))
	})
	for _, id := range slices.Concat(ids[:min(len(ids), limit)], templates[:min(len(templates), limit)]) {
		setUndone(t, t.states, id, nil)
		for v := range t.revisions {
			if v.scheduleID == id {
				delete(t.revisions, v)
				pruned++
			}
		}
		delete(t.schedules, id)
		delete(t.failing, id)
		pruned++
	}
	return pruned
}
