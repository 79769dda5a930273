package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/test/storetest"
	"github.com/carillon/carillon/launcher/presence"
)

func TestStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	services.Postgres(t, nil) // without a server, skip here and say so once
	storetest.Run(t, func(t testing.TB) storetest.Store {
		url := services.Postgres(t, migrate)
		return poisoner{underContract(t, url), url}
	})
}

// underContract is a store for the suite. A sweep that is slow because the machine is busy would not
// know what is due in more than a second.
func underContract(t testing.TB, url string) *postgres.Store {
	store := open(t, url, postgres.Options{MaxConns: 8, QueuedRetry: storetest.QueuedRetry})
	store.QuickSweeps()
	return store
}

// Of each queue, the first two reads from its front are slow, and there is no third one.
func TestQueuesKeepTheContractWhereReadsFromTheirFrontsAreSlow(t *testing.T) {
	t.Parallel()
	services.Postgres(t, nil)
	storetest.Run(t, func(t testing.TB) storetest.Store {
		url := services.Postgres(t, migrate)
		store := underContract(t, url)
		store.SlowFronts()
		return poisoner{store, url}
	}, "queues", "enqueue", "admit", "changes of queued runs", "admitted runs", "slots in queues", "bounds of runs", "put back", "sweep of queues",
		"queue model", "pull workers", "queue moves", "rates", "reservations", "fair queues", "groups of runs", "retries", "snoozes", "interruptions")
}

// Where another process admits, it finds runs that were put before others at its next read from the
// front.
func TestQueuesKeepTheContractWhereAnotherProcessReadsTheirFrontsAgain(t *testing.T) {
	t.Parallel()
	services.Postgres(t, nil)
	storetest.Run(t, func(t testing.TB) storetest.Store {
		url := services.Postgres(t, migrate)
		p := apart{poisoner{underContract(t, url), url}, underContract(t, url)}
		p.admits.SlowFronts()
		return p
	}, "enqueue", "admit", "queue model", "queue moves")
}

// apart admits in another process.
type apart struct {
	poisoner
	admits *postgres.Store
}

// Before makes it a storetest.Seamed.
func (p apart) Before(at storetest.Seam, nth int, do func()) (over func()) {
	return p.admits.Before(at, nth, do)
}

func (p apart) Admit(ctx context.Context, req schedule.AdmitRequest) (ledger.Dispatched, error) {
	p.admits.ReadFrontsAgain()
	return p.admits.Admit(ctx, req)
}

// poisoner can also break a row, as a bug or a hand at the table might.
type poisoner struct {
	*postgres.Store
	url string
}

func (p poisoner) Poison(ctx context.Context, scheduleID string) error {
	return p.exec(ctx, `UPDATE schedules SET labels = '{"broken": 1}', next_run_at = 'infinity' WHERE schedule_id = $1`, scheduleID)
}

func (p poisoner) DropRevisions(ctx context.Context, scheduleID string) error {
	return p.exec(ctx, `DELETE FROM schedule_revisions WHERE schedule_id = $1`, scheduleID)
}

func (p poisoner) DropCancelReason(ctx context.Context, key schedule.Key) error {
	return p.exec(ctx, `UPDATE open_runs SET cancel_reason = NULL WHERE idempotency_key = $1`, key[:])
}

// Probe makes it a storetest.Prober.
func (p poisoner) Probe(ctx context.Context, statement string, args ...any) (found [][]string, err error) {
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	rows, err := conn.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (texts []string, err error) {
		values, err := row.Values()
		for _, v := range values {
			if v == nil {
				v = ""
			}
			texts = append(texts, fmt.Sprint(v))
		}
		return texts, err
	})
}

// WritesBesideOthers makes it a storetest.OpenWriters.
func (poisoner) WritesBesideOthers() {}

// Age makes it a storetest.Ager.
func (p poisoner) Age(ctx context.Context, id string, by time.Duration) error {
	return p.exec(ctx, fmt.Sprintf(`UPDATE instances SET seen_at = seen_at - interval '%d seconds' WHERE instance_id = $1`, int(by.Seconds())), id)
}

func (p poisoner) OrphanUse(ctx context.Context, limitID string) error {
	return p.exec(ctx, `INSERT INTO limit_uses (limit_no, limit_key, used_by) SELECT limit_no, '', decode(repeat('0e', 32), 'hex') FROM limits WHERE limit_id = $1`, limitID)
}

func (p poisoner) exec(ctx context.Context, statement string, arg any) error {
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement, arg)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("poison %v: %w", arg, err)
	}
	return nil
}

// HoldPresence makes it a storetest.Presences.
func (p poisoner) HoldPresence(ctx context.Context, no int32) (generation string, drop func(), err error) {
	s, err := presence.Sessions{URL: p.url, TakePresence: postgres.TakePresence, ServerGeneration: postgres.ServerGeneration}.Take(ctx, no)
	if err != nil {
		return "", nil, err
	}
	// The server frees the lock a moment after the connection has ended.
	return s.Generation(), func() { s.Close(); p.ended(no) }, nil
}

// ended waits until the server has freed the presence lock.
func (p poisoner) ended(no int32) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return // the test has ended
	}
	defer func() { _ = conn.Close(ctx) }()
	_, _ = conn.Exec(ctx, postgres.TakePresence, no)
	_, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`)
}
