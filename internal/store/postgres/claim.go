package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// oneInFlight is the index that backs up the overlap rules.
const oneInFlight = "open_runs_one_in_flight"

// errRunsMoved means that a run is not in the state that its verdict needs. Nothing is
// written.
var errRunsMoved = errors.New("runs are locked or were changed since they were judged")

// claiming begins a claim transaction.
var claiming = pgx.TxOptions{BeginQuery: genericPlans.BeginQuery + `; SET LOCAL lock_timeout = '100ms'`}

// claimMode selects how a claim is written; the zero value is the fast way.
type claimMode struct {
	locked bool // lock the runs first, and leave out those that others have locked
	single bool // claim exclusive runs one by one
}

// Claim is one claim transaction; see worker.FireStore.
func (s *Store) Claim(ctx context.Context, req ledger.ClaimRequest, claim *ledger.Claim) (ledger.Claimed, error) {
	for mode := (claimMode{}); ; {
		claimed, err := s.claimOnce(ctx, &req, claim, mode)
		switch {
		case errors.Is(err, errRunsMoved) && !mode.locked:
			mode.locked = true
		case violates(err, oneInFlight) && !mode.single:
			mode.locked, mode.single = true, true
		case err != nil:
			return ledger.Claimed{}, fmt.Errorf("claim runs: %w", err)
		default:
			return claimed, nil
		}
	}
}

func (s *Store) claimOnce(ctx context.Context, req *ledger.ClaimRequest, claim *ledger.Claim, mode claimMode) (ledger.Claimed, error) {
	var claimed ledger.Claimed
	options := claiming
	if mode.locked {
		options = genericPlans // rows are skipped and not waited for
	}
	err := s.fencedWith(ctx, options, req.Term, func(tx pgx.Tx) error {
		c := &claimWrite{
			store: s, tx: tx, req: req, claim: claim, mode: mode,
			reader: &claimReader{
				ctx: ctx, store: s, tx: tx, term: req.Term, position: req.Position,
				definitions: make(map[schedule.RevisionID]*schedule.Definition),
			},
		}
		err := c.judgeAndWrite(ctx)
		if stateOf(err) == stateLockTimeout && !mode.locked {
			return errRunsMoved
		}
		claimed = c.claimed
		return err
	})
	return claimed, err
}

// claimWrite is one open claim transaction. It finds rows by key, and their status shows
// which verdicts are still valid. See openrow.go for ANY(ARRAY[u.key]).
type claimWrite struct {
	store   *Store
	tx      pgx.Tx
	req     *ledger.ClaimRequest
	claim   *ledger.Claim
	mode    claimMode
	reader  *claimReader
	groups  *ledger.SlotGroups
	claimed ledger.Claimed
}

func (c *claimWrite) judgeAndWrite(ctx context.Context) error {
	verdicts, err := c.claim.Decide(c.reader)
	if err != nil {
		return err
	}
	c.req.Now = verdicts.At()
	failpoint.Hit(failpoint.Judging)
	if c.groups, err = dialect.LockSlotGroups(ctx, queries{c.tx}, verdicts.Entries, c.req.Now); err != nil { // before any row of a run
		return err
	}
	if c.mode.locked {
		if verdicts, err = c.lockVerdicts(ctx, verdicts); err != nil {
			return err
		}
	}
	c.claimed.Verdicts, c.claimed.Position = verdicts, c.reader.position
	for _, write := range []func(context.Context) error{c.writeEnds, c.writeWaits, c.writeCancels, c.writeClaims, c.writeEntries, c.writeSeen} {
		if err := write(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sqlClaimLock locks the runs with valid verdicts, and skips runs that others have
// locked.
const sqlClaimLock = `
SELECT o.idempotency_key
FROM unnest($1::bytea[], $2::bigint[], $3::text[]) AS u(key, revision, verdict) JOIN open_runs o ON o.idempotency_key = ANY(ARRAY[u.key])
WHERE CASE WHEN u.verdict = 'cancel' THEN o.status > 1 AND o.cancel_requested_at IS NULL
	ELSE o.status = 1 AND o.revision = u.revision AND (u.verdict <> 'wait' OR o.waiting_since IS NULL)
	AND (u.verdict <> 'claim' OR o.fire_at <= $4) END
ORDER BY u.key FOR UPDATE OF o SKIP LOCKED`

// lockVerdicts locks the runs of all verdicts. It returns the verdicts that can be
// written.
func (c *claimWrite) lockVerdicts(ctx context.Context, v ledger.Verdicts) (ledger.Verdicts, error) {
	var (
		keys  []schedule.Key
		names []string
	)
	add := func(key schedule.Key, name string) { keys, names = append(keys, key), append(names, name) }
	for i := range v.Ends {
		add(v.Ends[i].Key, "end")
	}
	for i := range v.Cancels {
		add(v.Cancels[i].Key, "cancel")
	}
	for i := range v.Waits {
		add(v.Waits[i].Key, "wait")
	}
	for _, key := range v.Claims {
		add(key, "claim")
	}
	for i := range v.Entries {
		add(v.Entries[i].Key, "claim")
	}
	locked, err := keysOf(ctx, c.tx, sqlClaimLock, keyBytes(keys), c.revisions(keys), names, c.claim.Pass.Now.Add(c.claim.Pass.ClaimAhead))
	if err != nil {
		return v, fmt.Errorf("lock runs: %w", err)
	}
	for _, key := range keys {
		if !locked[key] {
			c.claimed.Missing = append(c.claimed.Missing, key)
		}
	}
	if len(c.claimed.Missing) > 0 {
		v = c.claim.State.Without(v, c.claimed.Missing)
	}
	return v, nil
}

// writeEnds takes the runs: nothing is read before.
func (c *claimWrite) writeEnds(ctx context.Context) error {
	ends := c.claimed.Verdicts.Ends
	rows, err := takeRuns(ctx, c.tx, sqlTakePlanned, column(ends, func(e *ledger.End) schedule.Key { return e.Key }))
	if err := c.wrote(len(rows), len(ends), err); err != nil || len(ends) == 0 {
		return err
	}
	taken := rowsByKey(rows)
	skips := make([]schedule.Skip, len(ends))
	for i, e := range ends {
		s := schedule.Settlement{
			Key: e.Key, To: e.To, Reason: e.Reason, ErrorCode: e.ErrorCode, ErrorMessage: e.ErrorMessage, CompletedAt: c.req.Now,
		}
		taken[e.Key].settle(&s, c.req.Now)
		run, _ := c.claim.State.Run(e.Key)
		skips[i] = schedule.Skip{Settlement: s, ScheduleID: run.ScheduleID, RunAt: run.RunAt}
	}
	if err := endAll(ctx, c.tx, rows, c.req.Now); err != nil {
		return err
	}
	c.claimed.Skipped = skips
	return nil
}

const sqlClaimWait = `
UPDATE open_runs o SET state = 2, due_at = 'infinity', waiting_since = u.since, updated_at = $1
FROM unnest($2::bytea[], $3::timestamptz[]) AS u(key, since)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status = 1 AND o.waiting_since IS NULL`

func (c *claimWrite) writeWaits(ctx context.Context) error {
	v := &c.claimed.Verdicts
	waits := slices.SortedFunc(slices.Values(v.Waits), func(a, b ledger.Wait) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if len(waits) == 0 {
		return nil
	}
	n, err := affect(ctx, c.tx, sqlClaimWait, c.req.Now, keyBytes(column(waits, func(w *ledger.Wait) schedule.Key { return w.Key })),
		column(waits, func(w *ledger.Wait) time.Time { return v.WaitsSince(*w) }))
	if err != nil {
		err = fmt.Errorf("let runs wait: %w", err)
	}
	return c.wrote(n, len(waits), err)
}

var sqlClaimCancel = `
UPDATE open_runs o SET cancel_requested_at = $1, cancel_reason = u.reason, due_at = least(o.due_at, $1), updated_at = $1
FROM unnest($2::bytea[], $3::text[], $4::text[]) AS u(key, schedule_id, reason)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status > 1 AND o.cancel_requested_at IS NULL
RETURNING u.schedule_id, ` + openFieldsOf("o")

func (c *claimWrite) writeCancels(ctx context.Context) error {
	cancels := slices.SortedFunc(slices.Values(c.claimed.Verdicts.Cancels), func(a, b ledger.Cancel) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if len(cancels) == 0 {
		return nil
	}
	keys := make([]schedule.Key, len(cancels))
	for i := range cancels {
		keys[i] = cancels[i].Key
	}
	runs, unreadable, err := c.store.runsReturned(ctx, c.tx, sqlClaimCancel, c.req.Now, keyBytes(keys), c.schedules(keys),
		column(cancels, func(v *ledger.Cancel) string { return string(v.Reason) }))
	if err != nil {
		err = fmt.Errorf("request cancels: %w", err)
	}
	c.claimed.Cancels = runs
	if slices.ContainsFunc(runs, func(r schedule.Run) bool { return r.Queue.In() }) {
		wakeQueues(c.tx)
	}
	return c.wrote(len(runs)+len(unreadable), len(cancels), err)
}

func (c *claimWrite) writeClaims(ctx context.Context) error {
	together, single := c.claimed.Verdicts.Claims, []schedule.Key(nil)
	if c.mode.single {
		together = nil
		for _, key := range c.claimed.Verdicts.Claims {
			if run, _ := c.claim.State.Run(key); run.Exclusive {
				single = append(single, key)
			} else {
				together = append(together, key)
			}
		}
	}
	found := make(map[schedule.Key]schedule.Run, len(c.claimed.Verdicts.Claims))
	if err := c.take(ctx, c.tx, inKeyOrder(together), found); err != nil {
		return fmt.Errorf("take runs: %w", err)
	}
	for _, key := range single {
		err := pgx.BeginFunc(ctx, c.tx, func(savepoint pgx.Tx) error { return c.take(ctx, savepoint, []schedule.Key{key}, found) })
		if violates(err, oneInFlight) {
			c.claimed.Refused = append(c.claimed.Refused, key)
		} else if err != nil {
			return fmt.Errorf("take run %s: %w", key, err)
		}
	}
	c.launch(found)
	return nil
}

// sqlClaim: since the run was judged, a plan may have moved its fire_at, and an edit
// may have put the run of another revision under its key.
var sqlClaim = `
UPDATE open_runs o SET state = 3, status = 2, exclusive_flight = o.policy <> 1, epoch = $1,
	claimed_at = $2, send_after = $3, timeout_at = u.timeout_at, due_at = $3,
	waiting_since = NULL, updated_at = $2
FROM unnest($4::bytea[], $5::timestamptz[], $6::bigint[]) AS u(key, timeout_at, revision)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.revision = u.revision AND o.status = 1 AND o.fire_at <= $7
RETURNING` + plannedColumns

// take makes planned runs LAUNCHING. It ends a row that cannot be read as a run: it
// cannot be launched, and the state must forget it.
func (c *claimWrite) take(ctx context.Context, tx pgx.Tx, keys []schedule.Key, found map[schedule.Key]schedule.Run) error {
	if len(keys) == 0 {
		return nil
	}
	var (
		now        = c.req.Now
		row        openRow
		rows       int
		unreadable []schedule.Key
	)
	err := eachRun(ctx, tx, &row, columnsOfPlanned.targets(&row), func() error {
		rows++
		judged, _ := c.claim.State.Run(row.Key)
		row.ScheduleID = judged.ScheduleID
		if c.store.logUnreadable(ctx, &row) {
			unreadable = append(unreadable, row.Key)
			return nil
		}
		definition := c.reader.definitions[revision.Of(&row.Run)]
		run := c.req.Launched(row.Run, definition)
		run.TimeoutAt = row.TimeoutAt // of the fire_at that was judged
		identify(&run, definition)
		found[run.Key] = run
		return nil
	}, sqlClaim, c.req.Term.Epoch, now, now.Add(c.req.Lease),
		keyBytes(keys), column(keys, c.timeout), c.revisions(keys), c.claim.Pass.Now.Add(c.claim.Pass.ClaimAhead))
	if err := c.wrote(rows, len(keys), err); err != nil {
		return err
	}
	ends := make([]schedule.Settlement, len(unreadable))
	for i, key := range unreadable {
		ends[i] = unreadableEnd(key)
	}
	c.claimed.Missing = append(c.claimed.Missing, unreadable...)
	_, _, err = settleAll(ctx, tx, now, ends)
	return err
}

// unreadableEnd ends a row that cannot be read as a run.
func unreadableEnd(key schedule.Key) schedule.Settlement {
	return schedule.Settlement{
		Key: key, To: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, ErrorCode: string(schedule.CodeRunUnreadable),
		ErrorMessage: "the run's row has values that no run can have; the server's log names them",
	}
}

// launch keeps the claims that were written, in their order.
func (c *claimWrite) launch(found map[schedule.Key]schedule.Run) {
	claims := make([]schedule.Key, 0, len(found))
	for _, key := range c.claimed.Verdicts.Claims {
		if run, ok := found[key]; ok {
			claims = append(claims, key)
			c.claimed.Launches = append(c.claimed.Launches, schedule.Launch{Run: run, Definition: c.reader.definitions[revision.Of(&run)]})
		}
	}
	c.claimed.Verdicts.Claims = claims
}

const sqlClaimSeen = `
UPDATE leaders SET seen_until = greatest(seen_until, $4)
WHERE shard = $1 AND holder = $2 AND epoch = $3`

func (c *claimWrite) writeSeen(ctx context.Context) error {
	t, seen := c.req.Term, c.claimed.Verdicts.SeenUntil
	if seen.IsZero() { // the state is stale
		return nil
	}
	if _, err := c.tx.Exec(ctx, sqlClaimSeen, t.Shard, t.Holder, t.Epoch, seen); err != nil {
		return fmt.Errorf("write seen_until: %w", err)
	}
	return nil
}

// wrote is errRunsMoved if not every verdict of a kind was written.
func (c *claimWrite) wrote(n, want int, err error) error {
	if err == nil && n != want {
		return fmt.Errorf("%d verdicts on %d runs: %w", want, n, errRunsMoved)
	}
	return err
}

func (c *claimWrite) revisions(keys []schedule.Key) []int64 {
	return column(keys, func(key *schedule.Key) int64 {
		run, _ := c.claim.State.Run(*key)
		return run.Revision
	})
}

func (c *claimWrite) schedules(keys []schedule.Key) []string {
	return column(keys, func(key *schedule.Key) string {
		run, _ := c.claim.State.Run(*key)
		return run.ScheduleID
	})
}

// timeout returns when a claim ends if nothing else ends it.
func (c *claimWrite) timeout(key *schedule.Key) time.Time {
	run, _ := c.claim.State.Run(*key)
	definition := c.reader.definitions[schedule.RevisionID{ScheduleID: run.ScheduleID, Revision: run.Revision}]
	return schedule.LaunchUntil(definition, run.FireAt, c.req.Now, c.req.RetryFor)
}
