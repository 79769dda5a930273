package pglock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// dialLimit is short: what was sent into a black hole is lost, and a new
	// attempt succeeds as soon as packets pass again.
	dialLimit = 2 * time.Second
	// connectLimit also covers the server's part, e.g. while it recovers.
	connectLimit = 5 * time.Second
)

// connect opens a session for the lock. Waiting in it may take for ever, but a
// peer that has vanished is noticed on both sides.
func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	conn, err := dial(ctx, url)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, sqlSetUp, pgx.QueryExecModeSimpleProtocol); err != nil {
		closeConn(conn)
		return nil, fmt.Errorf("set up the session of the leader lock: %w", err)
	}
	return conn, nil
}

func dial(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errors.New("DATABASE_URL is not a Postgres URL") // its text may hold a password
	}
	cfg.ConnectTimeout = connectLimit
	cfg.RuntimeParams["application_name"] = "carillon-leader"
	dialer := &net.Dialer{
		Timeout:         dialLimit,
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

// sqlSetUp: waiting is the point; and the server must notice a holder that
// vanished, for which its defaults take hours. It comes once the session is
// there: a pooler in session mode refuses to begin one with settings of its own.
const sqlSetUp = `SET statement_timeout = 0; SET lock_timeout = 0; SET idle_session_timeout = 0;
SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3; SET tcp_user_timeout = 5000`

// errPooled says what to do about a pooler.
var errPooled = errors.New("DATABASE_URL leads through a pooler that gives each transaction another session (transaction mode), " +
	"which would hand the leader lock to other clients; connect to Postgres itself, or use the pooler's session mode")

// CheckSession tells whether a connection to url is one session throughout, as
// an advisory lock and LISTEN need it. Behind a pooler in transaction mode two
// clients are seen in one session, or one client in two.
func CheckSession(ctx context.Context, url string) error {
	first, err := dial(ctx, url)
	if err != nil {
		return err
	}
	defer closeConn(first)
	before, err := session(ctx, first)
	if err != nil {
		return err
	}
	second, err := dial(ctx, url)
	if err != nil {
		return err
	}
	defer closeConn(second)
	// An open transaction keeps the session that the pooler has given it, which
	// most likely is the one that first has just left.
	tx, err := second.Begin(ctx)
	if err != nil {
		return fmt.Errorf("check the session: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	other, err := session(ctx, tx)
	if err != nil {
		return err
	}
	if other == before {
		return errPooled
	}
	after, err := session(ctx, first)
	if err != nil {
		return err
	}
	if after != before {
		return errPooled
	}
	return nil
}

func session(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) (pid int64, err error) {
	// Without a prepared statement, which poolers stumble over in their own way.
	err = db.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	if err != nil {
		return 0, fmt.Errorf("check the session: %w", err)
	}
	return pid, nil
}
