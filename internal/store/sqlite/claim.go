package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// Claim.
const (
	ofKeys           = ` FROM json_each(?1) j CROSS JOIN open_runs o ON o.idempotency_key = unhex(j.value)`
	inKeys           = `idempotency_key IN (SELECT unhex(value) FROM json_each(?5))`
	sqlWhichInFlight = `SELECT o.idempotency_key` + ofKeys + ` WHERE o.state IN (3, 4)`

	// sqlSuperseded are planned runs whose schedule has claimed a run of a later slot.
	sqlSuperseded = `SELECT o.idempotency_key` + ofKeys + ` WHERE o.state IN (1, 2) AND (
 EXISTS (SELECT 1 FROM open_runs l INDEXED BY open_runs_schedule WHERE l.sid = o.sid AND l.run_at > o.run_at AND l.state IN (3, 4))
 OR EXISTS (SELECT 1 FROM ended_runs l INDEXED BY ended_runs_schedule WHERE l.sid = o.sid AND l.run_at > o.run_at AND CASE WHEN l.queue_no IS NULL THEN l.claimed_at IS NOT NULL ELSE l.epoch > 0 END))`

	// What one_in_flight refuses is left out, and found by sqlClaimRefused.
	sqlClaim = `UPDATE OR IGNORE open_runs SET state = 3, status = 2, exclusive_flight = (policy <> 1), waiting_since = NULL, epoch = ?1,
 claimed_at = ?2, send_after = ?3, timeout_at = max(fire_at, ?2) + ?4, due_at = ?3, updated_at = ?2
 WHERE ` + inKeys + ` AND +state IN (1, 2)`
	sqlClaimRefused = `SELECT o.idempotency_key` + ofKeys + ` WHERE o.state IN (1, 2)`
	// 9223372036854775807: the end of another run moves it.
	sqlClaimWait = `UPDATE open_runs SET state = 2, due_at = 9223372036854775807, waiting_since = ?3, updated_at = ?1
 WHERE idempotency_key IN (SELECT unhex(value) FROM json_each(?2)) AND +state = 1`
)

var (
	sqlClaimPlanned  = `SELECT ` + plannedColumns + ofKeys + ` CROSS JOIN schedules s ON s.sid = o.sid WHERE o.state IN (1, 2)`
	sqlClaimInFlight = `SELECT ` + openRunColumns + ofKeys + ofOpen + ` WHERE o.state IN (3, 4) ORDER BY j.key`
)

// Claim runs one pass of a leader: it reads changes, lets claim judge, and writes the
// verdicts. It holds the write lock from the first read to the commit, so a missing run
// is gone, not locked, and judging again would find nothing new.
func (s *Store) Claim(ctx context.Context, req ledger.ClaimRequest, claim *ledger.Claim) (ledger.Claimed, error) {
	var c *claiming
	err := s.write(ctx, func(ctx context.Context, t tx) (err error) {
		c = &claiming{
			t: t, req: req, planned: make(map[schedule.Key]*schedule.Run), inFlight: make(map[schedule.Key]*schedule.Run),
			definitions: make(map[revision.ID]*schedule.Definition),
		}
		if err := fence(ctx, t, req.Term); err != nil {
			return err
		}
		read := s.claimReader(ctx, c)
		if c.out.Verdicts, err = claim.Decide(read); err != nil {
			return err
		}
		c.req.Now = c.out.Verdicts.At()
		failpoint.Hit(failpoint.Judging)
		c.out.Position = read.position
		if err := c.find(ctx, claim); err != nil {
			return err
		}
		if len(c.out.Missing) > 0 {
			c.out.Verdicts = claim.State.Without(c.out.Verdicts, c.out.Missing)
		}
		return c.write(ctx)
	})
	if err != nil {
		return ledger.Claimed{}, fmt.Errorf("claim runs: %w", err)
	}
	return c.out, nil
}

// claiming is one claim transaction.
type claiming struct {
	t           tx
	req         ledger.ClaimRequest
	planned     map[schedule.Key]*schedule.Run // those that verdicts are on
	inFlight    map[schedule.Key]*schedule.Run // those whose cancel is requested
	definitions map[revision.ID]*schedule.Definition
	out         ledger.Claimed
}

// claimReader is the ledger.Reader of a claim transaction.
type claimReader struct {
	position ledger.Position
	changes  func(ledger.Position) (ledger.Changes, ledger.Position, error)
	inFlight func([]schedule.Key) (map[schedule.Key]bool, error)
	newer    func([]schedule.Key) (map[schedule.Key]bool, error)
	facts    func([]schedule.RevisionID) (ledger.Facts, error)
	entryReader
}

func (r *claimReader) Changes() (c ledger.Changes, err error) {
	c, r.position, err = r.changes(r.position)
	return c, err
}

func (r *claimReader) InFlight(keys []schedule.Key) (map[schedule.Key]bool, error) {
	return r.inFlight(keys)
}

// Superseded returns the planned runs for which a newer slot has started.
func (r *claimReader) Superseded(keys []schedule.Key) (map[schedule.Key]bool, error) {
	return r.newer(keys)
}

func (r *claimReader) Facts(ids []schedule.RevisionID) (ledger.Facts, error) { return r.facts(ids) }

func (s *Store) claimReader(ctx context.Context, c *claiming) *claimReader {
	return &claimReader{
		position: c.req.Position,
		changes: func(from ledger.Position) (ledger.Changes, ledger.Position, error) {
			o := openReader{q: c.t}
			o.first, o.last = c.req.Term.Buckets()
			return s.readChanges(ctx, &o, from)
		},
		inFlight: func(keys []schedule.Key) (map[schedule.Key]bool, error) {
			return keysAmong(ctx, c.t, sqlWhichInFlight, keys)
		},
		newer: func(keys []schedule.Key) (map[schedule.Key]bool, error) {
			return keysAmong(ctx, c.t, sqlSuperseded, keys)
		},
		facts: func(ids []schedule.RevisionID) (f ledger.Facts, err error) {
			if f.Definitions, err = s.definitionsOf(ctx, c.t, ids); err != nil {
				return f, err
			}
			var grants []schedule.GrantRef
			for id, d := range f.Definitions {
				c.definitions[id] = d
				grants = append(grants, d.GrantRef())
			}
			f.Grants, err = dialect.ReadGrants(ctx, queries{c.t}, grants)
			return f, err
		},
		entryReader: entryReader{ctx, c.t},
	}
}

// keysAmong collects the keys that a statement returns of the given ones.
func keysAmong(ctx context.Context, t tx, statement string, keys []schedule.Key) (map[schedule.Key]bool, error) {
	found := make(map[schedule.Key]bool, len(keys))
	return found, t.query(ctx, statement, func(scan scan) error {
		var k key
		err := scan(&k)
		found[schedule.Key(k)] = true
		return err
	}, keyList(keys))
}

// find reads the runs with verdicts and records the missing ones.
func (c *claiming) find(ctx context.Context, claim *ledger.Claim) error {
	v := &c.out.Verdicts
	keys := slices.Concat(v.Claims, entryKeys(v.Entries), v.WaitKeys())
	for i := range v.Ends {
		keys = append(keys, v.Ends[i].Key)
	}
	if err := c.findPlanned(ctx, keys); err != nil {
		return fmt.Errorf("read planned runs: %w", err)
	}
	for i, k := range keys {
		if r := c.planned[k]; r == nil || i < len(v.Claims)+len(v.Entries) && !claim.IsAsJudged(r) {
			c.out.Missing = append(c.out.Missing, k)
		}
	}
	if len(v.Cancels) == 0 {
		return nil
	}
	keys = keys[:0]
	for i := range v.Cancels {
		keys = append(keys, v.Cancels[i].Key)
	}
	runs, err := readRuns(ctx, c.t, sqlClaimInFlight, keyList(keys))
	if err != nil {
		return fmt.Errorf("read runs in flight: %w", err)
	}
	for i := range runs {
		c.inFlight[runs[i].Key] = &runs[i]
	}
	for _, k := range keys {
		if c.inFlight[k] == nil {
			c.out.Missing = append(c.out.Missing, k)
		}
	}
	return nil
}

func (c *claiming) findPlanned(ctx context.Context, keys []schedule.Key) error {
	if len(keys) == 0 {
		return nil
	}
	return scanRows(ctx, c.t, columnsOfPlanned, func(row *openRow) {
		r := row.Run
		c.planned[r.Key] = &r
	}, sqlClaimPlanned, keyList(keys))
}

// write writes the verdicts. Each statement names the status that the run leaves;
// find has read it under the same lock.
func (c *claiming) write(ctx context.Context) error {
	v := &c.out.Verdicts
	if err := c.end(ctx, v.Ends); err != nil {
		return err
	}
	if err := c.wait(ctx, v); err != nil {
		return err
	}
	if err := c.cancel(ctx, v.Cancels); err != nil {
		return err
	}
	if err := c.launch(ctx); err != nil {
		return err
	}
	if err := c.enter(ctx); err != nil {
		return err
	}
	if v.SeenUntil.IsZero() {
		return nil
	}
	if _, err := c.t.exec(ctx, sqlNoteSeen, v.SeenUntil.UnixMicro(), c.req.Term.Shard); err != nil {
		return fmt.Errorf("note what was seen: %w", err)
	}
	return nil
}

// wait lets runs wait, those that begin now with one statement.
func (c *claiming) wait(ctx context.Context, v *ledger.Verdicts) error {
	since := make(map[int64][]schedule.Key)
	for _, w := range v.Waits {
		at := v.WaitsSince(w).UnixMicro()
		since[at] = append(since[at], w.Key)
	}
	for at, keys := range since {
		if _, err := c.t.exec(ctx, sqlClaimWait, c.req.Now.UnixMicro(), keyList(keys), at); err != nil {
			return fmt.Errorf("let %d runs wait: %w", len(keys), err)
		}
	}
	return nil
}

// end ends planned runs.
func (c *claiming) end(ctx context.Context, ends []ledger.End) error {
	keys := make([]schedule.Key, len(ends))
	for i := range ends {
		keys[i] = ends[i].Key
	}
	rows, err := openRowsOf(ctx, c.t, keys)
	if err != nil {
		return err
	}
	ended := make([]*openRow, len(ends))
	for i, e := range ends {
		s := schedule.Settlement{
			Key: e.Key, To: e.To, Reason: e.Reason, ErrorCode: e.ErrorCode, ErrorMessage: e.ErrorMessage, CompletedAt: c.req.Now,
		}
		r := rows[e.Key]
		if r == nil || !r.settle(&s, c.req.Now) {
			return fmt.Errorf("run %s cannot become %s", e.Key, e.To)
		}
		ended[i] = r
		c.out.Skipped = append(c.out.Skipped, schedule.Skip{Settlement: s, ScheduleID: r.ScheduleID, RunAt: r.RunAt})
	}
	return endUnnoted(ctx, c.t, ended, c.req.Now)
}

// cancel requests the cancel of runs in flight, unless that was done before.
func (c *claiming) cancel(ctx context.Context, cancels []ledger.Cancel) error {
	for _, v := range cancels {
		n, err := c.t.exec(ctx, sqlAskCancel, c.req.Now.UnixMicro(), word(v.Reason), keyArg(v.Key))
		if err != nil {
			return fmt.Errorf("request the cancel of run %s: %w", v.Key, err)
		}
		if n == 1 {
			r, _ := ledger.AskCancel(*c.inFlight[v.Key], v.Reason, c.req.Now)
			c.out.Cancels = append(c.out.Cancels, r)
			*c.t.queues = *c.t.queues || r.Queue.In()
		}
	}
	return nil
}

// launch makes the claimed runs LAUNCHING.
func (c *claiming) launch(ctx context.Context) error {
	byTimeout := make(map[time.Duration][]schedule.Key) // by how long they are tried; mostly one group
	c.out.Launches = make([]schedule.Launch, 0, len(c.out.Verdicts.Claims))
	for _, k := range c.out.Verdicts.Claims {
		r := c.planned[k]
		definition := c.definitions[revision.Of(r)]
		c.out.Launches = append(c.out.Launches, c.launched(*r, definition))
		long := schedule.LaunchFor(definition, c.req.RetryFor)
		byTimeout[long] = append(byTimeout[long], k)
	}
	refused := make(map[schedule.Key]bool)
	for timeout, keys := range byTimeout {
		arg := keyList(keys)
		n, err := c.t.exec(ctx, sqlClaim, c.req.Term.Epoch, c.req.Now.UnixMicro(), c.req.Now.Add(c.req.Lease).UnixMicro(), timeout.Microseconds(), arg)
		if err != nil {
			return fmt.Errorf("claim %d runs: %w", len(keys), err)
		}
		if n == int64(len(keys)) {
			continue
		}
		err = c.t.query(ctx, sqlClaimRefused, func(scan scan) error {
			var k key
			err := scan(&k)
			refused[schedule.Key(k)] = true
			return err
		}, arg)
		if err != nil {
			return fmt.Errorf("read which of %d runs were claimed: %w", len(keys), err)
		}
	}
	if len(refused) > 0 {
		c.leaveOut(refused)
	}
	return nil
}

// leaveOut removes claims that the index one_in_flight has refused. Their runs stay
// PLANNED.
func (c *claiming) leaveOut(refused map[schedule.Key]bool) {
	isRefused := func(k schedule.Key) bool { return refused[k] }
	for _, k := range c.out.Verdicts.Claims {
		if refused[k] {
			c.out.Refused = append(c.out.Refused, k)
		}
	}
	c.out.Verdicts.Claims = slices.DeleteFunc(c.out.Verdicts.Claims, isRefused)
	c.out.Launches = slices.DeleteFunc(c.out.Launches, func(l schedule.Launch) bool { return refused[l.Run.Key] })
}

// launched returns a run as its claim leaves it.
func (c *claiming) launched(r schedule.Run, d *schedule.Definition) schedule.Launch {
	r.UserID, r.WorkflowID, r.Version = d.UserID, d.WorkflowID, d.Version
	return schedule.Launch{Run: c.req.Launched(r, d), Definition: d}
}
