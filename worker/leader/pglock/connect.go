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
