package check

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// groups is Q8: a group ends once all of its members have ended, and says how; a sequential one
// runs them one after the other, and none after one that has failed.
func (j *jobs) groups() {
	cancelled := make(map[string]bool)
	made := make(map[string]record.JobAct)
	for _, act := range j.acts {
		switch {
		case act.Verb == record.CancelGroup && (!act.Refused || act.Unsure):
			cancelled[act.Group] = true
		case act.Verb == record.MakeGroup:
			made[act.Group] = act
		}
	}
	groups := make(map[string]record.Group)
	for _, g := range j.Groups {
		groups[g.GroupID] = g
	}
	for id, act := range made {
		g, known := groups[id]
		at := record.Run{ScheduleID: "group " + id, RunAt: act.Answered}
		if !known {
			j.report.Counts.Lost++
			j.violate("Q8", at, "the group was acknowledged, and is lost")
			continue
		}
		members := j.members(id)
		if g.Members != len(act.Inputs) || len(members) != len(act.Inputs) {
			j.violate("Q8", at, "it has %d members and %d runs of them; %d were asked for", g.Members, len(members), len(act.Inputs))
			continue
		}
		j.group(g, at, members, cancelled[id])
	}
}

// members are the runs of each member of a group, in their order.
func (j *jobs) members(group string) (members [][]*record.Job) {
	bySeq := make(map[int][]*record.Job)
	highest := 0
	for i := range j.Jobs {
		if job := &j.Jobs[i]; job.Group == group {
			bySeq[job.GroupSeq] = append(bySeq[job.GroupSeq], job)
			highest = max(highest, job.GroupSeq)
		}
	}
	for seq := 0; seq <= highest; seq++ {
		if runs := bySeq[seq]; runs != nil {
			slices.SortFunc(runs, func(a, b *record.Job) int { return a.CompletedAt.Compare(b.CompletedAt) })
			members = append(members, runs)
		}
	}
	return members
}

func (j *jobs) group(g record.Group, at record.Run, members [][]*record.Job, cancelled bool) {
	ends := make(map[string]int)
	for _, runs := range members {
		ends[runs[len(runs)-1].Status]++
	}
	want := "PARTIAL"
	switch {
	case ends["SUCCESS"] == len(members):
		want = "COMPLETED"
	case cancelled && g.State == "CANCELLED":
		want = "CANCELLED"
	}
	if g.State != want && (g.State != "CANCELLED" || !cancelled) {
		j.violate("Q8", at, "it is %s, and its members have ended %v; want %s", g.State, ends, want)
	}
	if g.Succeeded != ends["SUCCESS"] || g.Failed != ends["FAILED"] || g.Skipped != ends["SKIPPED"] || g.Cancelled != ends["CANCELLED"] {
		j.violate("Q8", at, "it counts %d, %d, %d, %d, and its members have ended %v", g.Succeeded, g.Failed, g.Skipped, g.Cancelled, ends)
	}
	if g.Mode != "sequential" {
		return
	}
	var before time.Time // the end of all earlier members, as the ledger has it
	stopped := false
	for _, runs := range members {
		for _, run := range runs {
			e := j.effects[run.Key]
			switch {
			case run.Reason == "predecessor_failed" && !stopped:
				j.violate("Q8", j.shown(run.Key), "it is cancelled, and all earlier members of group %s have succeeded in the end", g.GroupID)
			case e == nil:
			case stopped:
				j.violate("Q8", j.shown(run.Key), "it was sent at %s, and an earlier member of group %s has not succeeded", clock(e.first()), g.GroupID)
			case e.first().Before(before.Add(-tolerance)):
				j.violate("Q8", j.shown(run.Key), "it was sent at %s, and an earlier member of group %s ended at %s", clock(e.first()), g.GroupID, clock(before))
			}
		}
		last := runs[len(runs)-1]
		before, stopped = j.left[last.Key], stopped || last.Status != "SUCCESS"
	}
}
