package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// settings of each pooled connection: bounds for stuck statements, locks and clients; no
// JIT, because compiling takes longer than any statement here; no bitmap scans, because
// only a plain index scan marks index entries of dead rows, which would fill the partial
// indexes between vacuums; and one schema, because the default search path begins with
// the role's name and temporary tables.
var settings = map[string]string{
	"statement_timeout":                   "5s",
	"lock_timeout":                        "2s",
	"idle_in_transaction_session_timeout": "10s", // shortIdle if a takeover may wait
	"jit":                                 "off",
	"enable_bitmapscan":                   "off",
	searchPath:                            "public, pg_temp",
}

const searchPath = "search_path"

// setUp applies the settings that the DSN does not have. It sets them in the session: a
// pooler refuses unknown settings at the start of a connection.
func setUp(ctx context.Context, conn *pgx.Conn) error {
	var set strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if _, chosen := conn.Config().RuntimeParams[name]; !chosen {
			fmt.Fprintf(&set, "SELECT set_config('%s', '%s', false);", name, settings[name])
		}
	}
	if _, err := conn.Exec(ctx, set.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("set up session: %w", err)
	}
	return nil
}

// setPath sets the same schema for a connection outside the pool.
func setPath(ctx context.Context, conn *pgx.Conn) error {
	if _, chosen := conn.Config().RuntimeParams[searchPath]; chosen {
		return nil
	}
	_, err := conn.Exec(ctx, "SELECT set_config('search_path', '"+settings[searchPath]+"', false)", pgx.QueryExecModeSimpleProtocol)
	return err
}

const (
	probeRounds = 3
	probeLimit  = 10 * time.Second
)

// errPooled means that a pooler shares sessions between clients.
var errPooled = errors.New("sessions are shared")

// checkSession refuses a pooler that changes the session with each transaction or
// statement. Behind it no lock, setting, LISTEN or prepared statement lasts.
func checkSession(ctx context.Context, config *pgx.ConnConfig) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	config = config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // what is prepared may be gone
	var conns [2]*pgx.Conn
	for i := range conns {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		conns[i] = conn
	}
	for range probeRounds { // with other clients about, one round may see nothing
		err := probe(ctx, conns[0], conns[1], rand.Int64())
		if errors.Is(err, errPooled) {
			return schedule.Explain(schedule.ErrUnsupported,
				"DATABASE_URL leads through a pooler that gives each transaction or statement another session, so that no lock lasts: "+
					"connect to Postgres itself, or through a pooler in session mode (PgBouncer: pool_mode = session)")
		}
		if err != nil {
			return fmt.Errorf("check session: %w", err)
		}
	}
	return nil
}

// probe uses two clients at once: each must keep a session of its own, and a lock of the
// first must exclude the second.
func probe(ctx context.Context, first, second *pgx.Conn, key int64) error {
	before, locked, err := probeLock(ctx, first, sqlProbeLock, key)
	if err != nil {
		return err
	}
	// An open transaction keeps the session that the pooler gives it: most likely the one
	// that the first client has just left.
	tx, err := second.Begin(ctx)
	if err != nil {
		return errors.Join(errPooled, err) // statement mode has no transactions
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	other, lockedAgain, err := probeLock(ctx, tx, sqlProbeLock, key)
	if err != nil {
		return err
	}
	if other == before {
		// Both locks are in it. The first is not asked: where there is no other
		// session, it would wait for this transaction.
		for range 2 {
			_, _, _ = probeLock(ctx, tx, sqlProbeUnlock, key)
		}
		return errPooled
	}
	after, unlocked, err := probeLock(ctx, first, sqlProbeUnlock, key)
	if err != nil {
		return err
	}
	if lockedAgain { // the first one's is gone
		_, _, _ = probeLock(ctx, tx, sqlProbeUnlock, key)
	}
	if !locked || lockedAgain || !unlocked || after != before {
		return errPooled
	}
	return nil
}

func probeLock(ctx context.Context, q interface {
	QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
}, statement string, key int64,
) (session int64, done bool, err error) {
	err = q.QueryRow(ctx, statement, key).Scan(&session, &done)
	return session, done, err
}
