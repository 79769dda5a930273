package tables

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// ReadAdmission reads what an admission needs of a queue, in its transaction and under its
// lock, and locks the limits of its runs. Queue is nil if there is none. No run of the queue in
// flight has a lower number of admission than from; first is the lowest of those that have one.
func (d *Dialect) ReadAdmission(ctx context.Context, q Queries, req *schedule.AdmitRequest, from int64) (f ledger.QueueFacts, first int64, err error) {
	if f, first, err = d.readQueueFacts(ctx, q, req.QueueNo, from); err != nil || f.Queue == nil {
		return f, first, err
	}
	if req.Fetch != nil {
		if err := readFetch(ctx, q, &f, req); err != nil {
			return f, first, err
		}
	}
	room := f.Room(req)
	sets, err := d.readSets(ctx, q, req.QueueNo, room, &f)
	if err != nil {
		return f, first, err
	}
	if err := d.readLimits(ctx, q, &f, sets, req.Now, true); err != nil { // of reservations too: they start also in a stall
		return f, first, err
	}
	return f, first, d.readHeads(ctx, q, req, room, sets, &f)
}

// readSets reads the limit sets of the runs that wait in a queue, and those runs that keep a limit.
// The runs of a plain queue its store reads.
func (d *Dialect) readSets(ctx context.Context, q Queries, queueNo int32, room int, f *ledger.QueueFacts) ([]schedule.Limits, error) {
	if room == 0 {
		return nil, nil
	}
	var state int
	limited, err := one(ctx, q, []any{&state}, sqlAnyLimited, queueNo)
	if err != nil {
		return nil, fmt.Errorf("look for limits: %w", err)
	}
	if f.Plain = !limited && f.Queue.PromoteAfterMS == 0; f.Plain {
		return nil, nil
	}
	keeping, err := collect(ctx, q, (*headRow).fields, sqlKeepWaiting, queueNo)
	if err != nil {
		return nil, fmt.Errorf("read the runs that keep limits: %w", err)
	}
	for i := range keeping {
		f.AddKeeping(keeping[i].run())
	}
	sets, err := collect(ctx, q, func(set *string) []any { return []any{set} }, sqlLimitSets, queueNo)
	if err != nil {
		return nil, fmt.Errorf("read the limits of waiting runs: %w", err)
	}
	limits := make([]schedule.Limits, len(sets))
	for i, set := range sets {
		limits[i] = schedule.Limits(set)
	}
	return limits, nil
}

func (d *Dialect) readQueueFacts(ctx context.Context, q Queries, queueNo int32, from int64) (f ledger.QueueFacts, first int64, err error) {
	found, err := collect(ctx, q, admissionFields, sqlAdmits, queueNo)
	if err != nil || len(found) == 0 {
		return f, 0, err
	}
	f.Queue, f.Stall, f.NextStart = found[0].queue(), found[0].stall, found[0].nextStart
	f.Stall.QueueNo = queueNo
	var reserved bool
	if _, err = one(ctx, q, []any{&f.InFlight, &first, &reserved}, d.QueueInFlight, queueNo, from); err != nil {
		return f, 0, fmt.Errorf("count runs in flight: %w", err)
	}
	if reserved {
		if f.Reserved, err = collect(ctx, q, reservationFields, sqlReservations, queueNo); err != nil {
			return f, 0, fmt.Errorf("read reservations: %w", err)
		}
	}
	return f, first, nil
}

// headRow is a waiting run with what its admission is decided by.
type headRow struct {
	key      schedule.Key
	limits   string
	priority int32
	fair     int64
	position int64
	enqueued time.Time
	kept     string
}

func (r *headRow) fields() []any {
	return []any{&r.key, &r.limits, &r.priority, &r.fair, &r.position, &r.enqueued, &r.kept}
}

func (r *headRow) run() ledger.WaitingRun {
	return ledger.Waiting(&schedule.Run{Key: r.key, Queue: schedule.QueuePlace{
		Priority: r.priority, FairOrder: r.fair, Position: r.position, EnqueuedAt: r.enqueued, Limits: schedule.Limits(r.limits), Kept: schedule.Limits(r.kept),
	}})
}

// readHeads reads the first waiting runs of each limit set, together about as many as can start, and
// where runs are promoted also those that wait longest.
func (d *Dialect) readHeads(ctx context.Context, q Queries, req *schedule.AdmitRequest, room int, sets []schedule.Limits, f *ledger.QueueFacts) error {
	if len(sets) == 0 {
		return nil
	}
	heads, err := firstRuns(ctx, q, d.ReadHeads, req.QueueNo, f.HeadReads(sets, room, req.Now), func(at []int) Rows {
		texts := make([]string, len(at))
		for i, set := range at {
			texts[i] = string(sets[set])
		}
		return Rows{texts}
	}, func(r *headRow) any { return r.limits })
	if err != nil {
		return fmt.Errorf("read waiting runs: %w", err)
	}
	if f.Heads = append(f.Heads, heads...); f.Queue.PromoteAfterMS == 0 {
		return nil
	}
	if heads, err = d.readOldest(ctx, q, req, room, f); err != nil {
		return fmt.Errorf("read the oldest runs: %w", err)
	}
	f.Oldest = append(f.Oldest, heads...)
	return nil
}

// readOldest reads the first runs of each limit set and priority, among them those that wait
// longest.
func (d *Dialect) readOldest(ctx context.Context, q Queries, req *schedule.AdmitRequest, room int, f *ledger.QueueFacts) ([]ledger.Head, error) {
	var sets []schedule.Limits
	var priorities []int32
	var set string
	var priority int32
	err := q.Each(ctx, sqlPrioritySets, []any{&set, &priority}, func(bad error) error {
		sets, priorities = append(sets, schedule.Limits(set)), append(priorities, priority)
		return bad
	}, req.QueueNo)
	if err != nil || len(sets) == 0 {
		return nil, err
	}
	type pair struct {
		limits   string
		priority int32
	}
	// Every second start at most is that of a run that has waited so long.
	return firstRuns(ctx, q, d.ReadOldest, req.QueueNo, f.HeadReads(sets, room/2+1, req.Now), func(at []int) Rows {
		texts, those := make([]string, len(at)), make([]int32, len(at))
		for i, set := range at {
			texts[i], those[i] = string(sets[set]), priorities[set]
		}
		return Rows{texts, those}
	}, func(r *headRow) any { return pair{r.limits, r.priority} })
}

// firstRuns reads the first waiting runs of sets: so many of each as reads says. rowsOf are the
// arguments for some of the sets, and of is the set of a run.
func firstRuns(ctx context.Context, q Queries, statement string, queueNo int32, reads []int, rowsOf func(at []int) Rows, of func(*headRow) any) ([]ledger.Head, error) {
	byReads := make(map[int][]int)
	for i, n := range reads {
		byReads[n] = append(byReads[n], i)
	}
	delete(byReads, 0)
	var heads []ledger.Head
	for _, n := range slices.Sorted(maps.Keys(byReads)) {
		rows, err := collect(ctx, q, func(r *headRow) []any {
			return []any{&r.key, &r.limits, &r.priority, &r.fair, &r.position, &r.enqueued} // none keeps a limit
		}, statement, queueNo, n, rowsOf(byReads[n]))
		if err != nil {
			return nil, err
		}
		heads = append(heads, headsOf(rows, n, of)...)
	}
	return heads, nil
}

// headsOf are rows by their sets. Of each set up to n were read.
func headsOf(rows []headRow, n int, of func(*headRow) any) (heads []ledger.Head) {
	at := make(map[any]int)
	for i := range rows {
		set := of(&rows[i])
		if _, known := at[set]; !known {
			at[set] = len(heads)
			heads = append(heads, ledger.Head{})
		}
		h := &heads[at[set]]
		h.Runs = append(h.Runs, rows[i].run())
	}
	for i := range heads {
		slices.SortFunc(heads[i].Runs, func(a, b ledger.WaitingRun) int { return ledger.CompareWaiting(&a, &b) })
		heads[i].More = len(heads[i].Runs) == n
	}
	return heads
}

// WriteAdmission writes what an admission says besides its runs.
func (d *Dialect) WriteAdmission(ctx context.Context, q Queries, queueNo int32, out *ledger.Dispatched) error {
	if !out.Reserved.Empty() {
		if err := d.WriteReservations(ctx, q, &out.Reserved); err != nil {
			return err
		}
	}
	if len(out.Dispatches) == 0 {
		return nil
	}
	if out.Stall != nil {
		if err := WriteStalls(ctx, q, []schedule.StallChange{*out.Stall}); err != nil {
			return err
		}
	}
	if err := writeClocks(ctx, q, queueNo, out.Clocks); err != nil {
		return err
	}
	return d.writeUses(ctx, q, queueNo, out)
}

// Permits adds to the chosen runs of an admission their definitions and the grants that permit
// them.
func (d *Dialect) Permits(ctx context.Context, q Queries, req *schedule.AdmitRequest, runs []schedule.Run, definitions map[revision.ID]*schedule.Definition) ([]ledger.WaitingFacts, error) {
	found := make([]ledger.WaitingFacts, 0, len(runs))
	refs := make([]schedule.GrantRef, 0, len(runs))
	for i := range runs {
		w := ledger.WaitingFacts{Run: runs[i], Definition: definitions[revision.Of(&runs[i])]}
		if w.Definition != nil {
			refs = append(refs, w.Definition.GrantUse(req.RequireGrant).Ref())
		}
		found = append(found, w)
	}
	grants, err := d.ReadGrants(ctx, q, refs)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if w := &found[i]; w.Definition != nil {
			w.Grant = grants[w.Definition.GrantUse(req.RequireGrant).Ref()]
		}
	}
	return found, nil
}

// ReadWaitingPlace reads what explains a run that waits in a queue. Runs before it are counted
// up to counted; users bounds the runs in flight that are named, of the queue and of each limit.
func (t *Tables) ReadWaitingPlace(ctx context.Context, r *schedule.Run, counted, users int, now time.Time) (p ledger.WaitingPlace, err error) {
	if p.QueueFacts, _, err = t.dialect.readQueueFacts(ctx, t.read, r.Queue.No, 0); err != nil || p.Queue == nil {
		return p, err
	}
	p.Heads = []ledger.Head{{Runs: []ledger.WaitingRun{ledger.Waiting(r)}}}
	if p.Queue.Pulled() {
		if _, err := one(ctx, t.read, []any{&p.LastFetch}, sqlLastFetch, r.Queue.No); err != nil {
			return p, fmt.Errorf("read the last fetch: %w", err)
		}
	}
	if err := t.dialect.readLimits(ctx, t.read, &p.QueueFacts, nil, now, false); err != nil {
		return p, err
	}
	if _, err = one(ctx, t.read, []any{&p.Before}, sqlWaitBefore, r.Queue.No, r.Queue.Priority, counted); err != nil {
		return p, fmt.Errorf("count runs of higher priorities: %w", err)
	}
	key := func(k *schedule.Key) []any { return []any{k} }
	if p.Flights, err = collect(ctx, t.read, key, sqlQueueFlights, r.Queue.No, users); err != nil {
		return p, fmt.Errorf("read runs in flight: %w", err)
	}
	p.Uses = make(map[schedule.LimitRef][]schedule.Key)
	for ref := range p.Limits {
		if p.Uses[ref], err = collect(ctx, t.read, key, sqlUsersOfLimit, ref.ID, ref.Key, users); err != nil {
			return p, fmt.Errorf("read who uses limit %s: %w", ref, err)
		}
	}
	if p.Queue.IsFair() && r.Queue.State == schedule.QueueWaiting && r.Queue.FairOrder > 0 {
		p.Turns = new(ledger.FairBefore)
		_, err = one(ctx, t.read, []any{&p.Turns.All, &p.Turns.Own, &p.Turns.Later}, sqlFairBefore, r.Queue.No, r.Queue.Priority,
			r.Queue.FairOrder, r.Queue.Position, r.Key, r.Queue.FairKey, r.Queue.EnqueuedAt, counted)
		if err != nil {
			return p, fmt.Errorf("count the runs before it by key: %w", err)
		}
	}
	return p, nil
}
