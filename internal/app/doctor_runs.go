package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
)

const (
	lookback      = 15 * time.Minute // of outcomes
	deadLookback  = 24 * time.Hour
	endedRead     = 200_000 // runs; beyond it only the newest are counted
	reasonsShown  = 4
	launchingLong = time.Minute
	rowsListed    = 200
)

// outcomes checks the recent ends of runs. Failing work is a finding even if all of Carillon works.
func (d *doctor) outcomes(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	counts, err := store.CountEnded(ctx, store.Now().Add(-lookback), endedRead)
	if err != nil {
		d.unread("outcomes", err)
		return
	}
	groups := schedule.GroupEnded(counts)
	// Pauses are intended.
	groups = slices.DeleteFunc(groups, func(g schedule.EndedGroup) bool { return g.Reason == schedule.ReasonPaused })
	// Failures first, because skipped slots follow from them.
	slices.SortStableFunc(groups, func(a, b schedule.EndedGroup) int {
		return schedule.FalseFirst(a.Status == schedule.StatusSkipped, b.Status == schedule.StatusSkipped)
	})
	var succeeded, failed, skipped int64
	for i := range groups {
		switch groups[i].Status {
		case schedule.StatusSuccess:
			succeeded += groups[i].Runs
		case schedule.StatusFailed:
			failed += groups[i].Runs
		case schedule.StatusSkipped:
			skipped += groups[i].Runs
		}
	}
	switch {
	case len(groups) == 0:
		d.ok("outcomes", "no runs ended in the last 15 minutes")
		return
	case failed+skipped == 0:
		d.ok("outcomes", "none of the runs that ended in the last 15 minutes failed (%d succeeded)", succeeded)
		return
	}
	report := d.warn
	if failed+skipped >= succeeded && failed > 0 {
		report = d.fail
	}
	shown := 0
	for i := range groups {
		g := &groups[i]
		if g.Status != schedule.StatusFailed && g.Status != schedule.StatusSkipped {
			continue
		}
		if shown++; shown > reasonsShown {
			break
		}
		report("outcomes", fmt.Sprintf("%d of %d runs that ended in the last 15 minutes %s(%s), most of %s", g.Runs, succeeded+failed+skipped, g.Status, g.Reason.WithCode(g.ErrorCode), worst(g)),
			d.findOutcome(ctx, store, g))
	}
}

// findOutcome returns the commands that show a group's newest run and all its runs. It names the run,
// because the schedule's newest slot may have a different outcome.
func (d *doctor) findOutcome(ctx context.Context, store Store, g *schedule.EndedGroup) string {
	id := g.Worst[0].ScheduleID
	list := fmt.Sprintf("`carillon run list --schedule %s --status %s --reason %s`", id, g.Status, g.Reason)
	runs, err := store.ListRuns(ctx, schedule.RunFilter{ScheduleID: id, Statuses: []schedule.Status{g.Status}, Reason: g.Reason, Now: store.Now(), Limit: rowsListed})
	i := slices.IndexFunc(runs, func(r schedule.Run) bool { return r.ErrorCode == g.ErrorCode })
	if err != nil || i < 0 {
		return list + " lists them; `carillon explain KEY` says why"
	}
	show := "explain"
	if runs[i].Key != schedule.SlotKey(id, runs[i].RunAt) { // a manual run or a retry
		show = "run get"
	}
	digits := 12
	if runs[i].IsJob() { // 12 are its time, which other jobs may have
		digits = 20
	}
	return fmt.Sprintf("`carillon %s %s` says why of the newest; %s lists them", show, runs[i].Key.String()[:digits], list)
}

func worst(g *schedule.EndedGroup) string {
	names := make([]string, len(g.Worst))
	for i, c := range g.Worst {
		names[i] = fmt.Sprintf("%s (%d)", c.ScheduleID, c.Runs)
	}
	return strings.Join(names, ", ")
}

// failing looks for schedules with a failed newest run, at any time in the past.
func (d *doctor) failing(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	groups, err := store.FailureGroups(ctx, "")
	if err != nil {
		d.unread("failing", err)
		return
	}
	if len(groups) == 0 {
		d.ok("failing", "no schedule is failing")
		return
	}
	for i := range groups[:min(len(groups), reasonsShown)] {
		g := &groups[i]
		d.warn("failing", fmt.Sprintf("schedules that fail with %s: %d, since %s; the newest %s", g.Reason.WithCode(g.ErrorCode), g.Schedules, g.FirstAt.UTC().Format(time.RFC3339), strings.Join(g.Examples, ", ")),
			fmt.Sprintf("`carillon schedule get %s` shows the error; correct the workflow or its executor, then `carillon run retry`", g.Examples[0]))
	}
}

// dead looks for runs of the last day that failed for good and that nobody has retried.
func (d *doctor) dead(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	counts, err := store.CountDead(ctx, store.Now().Add(-deadLookback), schedule.DeadCountLimit)
	if err != nil {
		d.unread("dead runs", err)
		return
	}
	if len(counts) == 0 {
		d.ok("dead runs", "no run of the last day failed for good")
		return
	}
	total := int64(0)
	for i := range counts {
		total += counts[i].Runs
	}
	more := ""
	if total == schedule.DeadCountLimit {
		more = " or more"
	}
	d.warn("dead runs", fmt.Sprintf("runs of the last day that failed for good: %d%s, most of %s (%d)", total, more, counts[0].ScheduleID, counts[0].Runs),
		fmt.Sprintf("`carillon run list --dead` lists them; when the cause is fixed, `carillon run redrive --schedule %s` retries those of one schedule", counts[0].ScheduleID))
}

// launching looks for runs that wait for an executor too long.
func (d *doctor) launching(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	now := store.Now()
	runs, err := store.ListRuns(ctx, schedule.RunFilter{Statuses: []schedule.Status{schedule.StatusLaunching}, Now: now, Ascending: true, Limit: rowsListed})
	if err != nil {
		d.unread("launching", err)
		return
	}
	runs = slices.DeleteFunc(runs, func(r schedule.Run) bool { return now.Sub(r.ClaimedAt) <= launchingLong })
	if len(runs) == 0 {
		d.ok("launching", "no run is LAUNCHING for over a minute")
		return
	}
	oldest := &runs[0]
	for i := range runs {
		if runs[i].ClaimedAt.Before(oldest.ClaimedAt) {
			oldest = &runs[i]
		}
	}
	more := ""
	if len(runs) == rowsListed {
		more = " or more"
	}
	why := "no error recorded"
	if text := strings.TrimSuffix(oldest.ErrorCode+": "+oldest.ErrorMessage, ": "); text != "" {
		why = text
	}
	d.fail("launching", fmt.Sprintf("%d%s runs are LAUNCHING for over a minute; the oldest, of %s, for %s: %s", len(runs), more, oldest.ScheduleID, now.Sub(oldest.ClaimedAt).Round(time.Second), why),
		fmt.Sprintf("check the executor and its log; `carillon run get %s` shows the run", oldest.Key))
}

// openAlerts counts open alerts.
func (d *doctor) openAlerts(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	open := true
	alerts, err := store.ListAlerts(ctx, schedule.AlertFilter{Open: &open, Limit: rowsListed})
	switch {
	case err != nil:
		d.unread("alerts", err)
		return
	case len(alerts) == 0:
		d.ok("alerts", "no open alerts")
		return
	}
	unread := 0
	for i := range alerts {
		if alerts[i].AckedAt.IsZero() {
			unread++
		}
	}
	more := ""
	if len(alerts) == rowsListed {
		more = " or more"
	}
	newest := &alerts[0]
	d.warn("alerts", fmt.Sprintf("open alerts: %d%s, not acknowledged: %d; the newest: %s of %s, %s", len(alerts), more, unread, newest.Kind, newest.ScheduleID, newest.Cause),
		"`carillon alert list --state open` lists them; `carillon alert ack` acknowledges one")
}

// processes looks for a missing standby and for different versions. SQLite has no standby: one process
// owns the file.
func (d *doctor) processes(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	seen, err := store.Instances(ctx, seenLately)
	if err != nil {
		d.unread("processes", err)
		return
	}
	var workers []string
	versions := make(map[string]int)
	for _, p := range seen {
		versions[p.Version]++
		if p.Has("worker") {
			workers = append(workers, p.Host)
		} else if p.Unhealthy != "" {
			d.warn("processes", fmt.Sprintf("launcher %s (%s) is unhealthy: %s", p.ID, p.Host, p.Unhealthy), "it launches nothing; fix the cause")
		}
	}
	if len(seen) == 0 {
		return // reported by the leader check
	}
	if len(versions) > 1 {
		var list []string
		for version, n := range versions {
			list = append(list, fmt.Sprintf("%s (%d)", version, n))
		}
		slices.Sort(list)
		d.warn("processes", "different versions run: "+strings.Join(list, ", "), "finish the upgrade; `carillon worker list` shows each process")
		return
	}
	if len(workers) == 1 && d.cfg.OnPostgres() {
		d.warn("processes", fmt.Sprintf("one worker, no standby: if %s ends, nothing is launched", workers[0]), "start a second process with the role worker")
		return
	}
	d.ok("processes", "%d seen in the last minute, %d with the role worker, version %s", len(seen), len(workers), seen[0].Version)
}

// historyAhead is how far ahead history must have partitions. A leader adds two days.
const historyAhead = 24 * time.Hour

// history checks the partitions of ended runs. Only Postgres has partitions.
func (d *doctor) history(ctx context.Context, store Store) {
	db, ok := store.(*postgres.Store)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	h, err := db.History(ctx)
	if err != nil {
		d.unread("history", err)
		return
	}
	until := h.Until.Format(time.DateOnly)
	switch {
	case h.Until.Sub(store.Now()) < historyAhead:
		d.warn("history", "ended_runs has daily partitions only until "+until,
			"a worker adds them every ten minutes: see its log for \"partitions of ended_runs\"; until then ended_runs_ahead takes the runs")
	case h.Ahead >= postgres.HistoryAheadLimit:
		d.warn("history", fmt.Sprintf("%d or more ended runs are later than %s, in ended_runs_ahead", h.Ahead, until),
			"they were cancelled far ahead of their time; each new partition moves its part of them")
	default:
		d.ok("history", "ended_runs has daily partitions until %s", until)
	}
}
