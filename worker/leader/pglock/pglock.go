// Package pglock is the leader lock on Postgres: a session advisory lock on a
// connection of its own, never one from a pool, which would recycle it.
package pglock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// namespace keeps Carillon's advisory locks apart from others'; the second
// key is the shard. It is "cari" in ASCII.
const namespace = 0x63617269

// Lock is a session advisory lock.
type Lock struct {
	url   string
	shard int
	mu    sync.Mutex
	conn  *pgx.Conn // nil: not held
}

// New makes the Lock of one shard in the database at url.
func New(url string, shard int) *Lock { return &Lock{url: url, shard: shard} }

// sqlAcquire waits in the server: a session that dies passes its lock on in
// about a millisecond.
const sqlAcquire = `SELECT pg_advisory_lock($1, $2)`

// Acquire waits until no other session holds the lock.
func (l *Lock) Acquire(ctx context.Context) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, sqlAcquire, namespace, l.shard); err != nil {
		// A cancelled call may have got the lock: only closing the session is sure.
		closeConn(conn)
		return fmt.Errorf("acquire advisory lock: %w", err)
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	return nil
}

func (l *Lock) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(l.url)
	if err != nil {
		return nil, errors.New("DATABASE_URL is not a Postgres URL") // its text may hold a password
	}
	cfg.ConnectTimeout = 5 * time.Second
	cfg.RuntimeParams["application_name"] = "carillon-leader"
	cfg.RuntimeParams["statement_timeout"] = "0" // waiting is the point
	cfg.RuntimeParams["lock_timeout"] = "0"
	cfg.RuntimeParams["idle_session_timeout"] = "0"
	// The server must notice a holder that vanished: its defaults take hours.
	cfg.RuntimeParams["tcp_keepalives_idle"] = "2"
	cfg.RuntimeParams["tcp_keepalives_interval"] = "1"
	cfg.RuntimeParams["tcp_keepalives_count"] = "3"
	cfg.RuntimeParams["tcp_user_timeout"] = "5000"
	dialer := &net.Dialer{
		Timeout:         5 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3},
		Control:         userTimeout,
	}
	cfg.DialFunc = dialer.DialContext
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect for the leader lock: %w", err)
	}
	return conn, nil
}

// Release frees the lock by ending its session.
func (l *Lock) Release(context.Context) error {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		closeConn(conn)
	}
	return nil
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
