// Package pglock is the leader lock on Postgres: a session advisory lock on a
// connection of its own, never one from a pool, which would recycle it. It decides
// which process tries to lead. See package leader.
package pglock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/pgsession"
)

// namespace separates Carillon's advisory locks from others; the second key is the shard. It
// is "cari" in ASCII.
const namespace = 0x63617269

// Lock is a session advisory lock.
type Lock struct {
	url   string
	shard int
	pid   atomic.Int64 // the server process of our session, also while it waits; 0: none
	mu    sync.Mutex
	conn  *pgx.Conn // nil: not held
}

// New returns the Lock of one shard in the database at url.
func New(url string, shard int) *Lock { return &Lock{url: url, shard: shard} }

// sqlAcquire waits in the server: a session that dies passes its lock on in
// about a millisecond.
const sqlAcquire = `SELECT pg_advisory_lock($1, $2)`

// sqlKeep needs the session that holds the lock, and nothing else.
const sqlKeep = `SELECT 1`

// sqlBreak ends the session that holds the lock, unless it is our own, which
// may have got it by now. A role may end sessions of its own role.
const sqlBreak = `
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND classid = $1 AND objid = $2 AND objsubid = 2 AND granted AND pid <> $3
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// Acquire waits until no other session holds the lock.
func (l *Lock) Acquire(ctx context.Context) error {
	conn, err := pgsession.Open(ctx, l.url, "carillon-leader")
	if err != nil {
		return err
	}
	l.pid.Store(int64(conn.PgConn().PID()))
	if _, err := conn.Exec(ctx, sqlAcquire, namespace, l.shard); err != nil {
		// A cancelled call may have got the lock: close the session to be sure.
		l.pid.Store(0)
		pgsession.Close(conn)
		return fmt.Errorf("acquire advisory lock: %w", err)
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	return nil
}

// keepLimit bounds how long a leader waits for a session that does not answer.
const keepLimit = 5 * time.Second

// Keep asks the session that holds the lock whether it still lives.
func (l *Lock) Keep(ctx context.Context) error {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn == nil {
		return errors.New("the advisory lock is not held")
	}
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	if _, err := conn.Exec(ctx, sqlKeep); err != nil {
		return fmt.Errorf("the session of the advisory lock is gone: %w", err)
	}
	return nil
}

// Release frees the lock by ending its session.
func (l *Lock) Release(context.Context) error {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		l.pid.Store(0)
		pgsession.Close(conn)
	}
	return nil
}

// Break ends the session of another process that holds the lock: a stopped process would
// keep it forever.
func (l *Lock) Break(ctx context.Context) error {
	conn, err := pgsession.Open(ctx, l.url, "carillon-leader")
	if err != nil {
		return err
	}
	defer pgsession.Close(conn)
	if _, err := conn.Exec(ctx, sqlBreak, namespace, l.shard, l.pid.Load()); err != nil {
		return fmt.Errorf("end the session that holds the advisory lock: %w", err)
	}
	return nil
}
