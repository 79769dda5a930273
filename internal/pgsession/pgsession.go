// Package pgsession opens connections to Postgres whose sessions hold a lock: of
// the leader, of an instance's presence. They are never from a pool, which would
// recycle them. It takes part in no step of a slot's life.
package pgsession

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// dialTimeout is short: packets that were dropped are lost, and a new attempt
	// succeeds as soon as packets pass again.
	dialTimeout = 2 * time.Second
	// connectTimeout also covers the server's part, e.g. while it recovers.
	connectTimeout = 5 * time.Second
	closeTimeout   = time.Second
)

// Open opens a session named application. It may wait for a lock without a limit,
// and both sides notice within about five seconds that the other has vanished.
func Open(ctx context.Context, url, application string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errors.New("DATABASE_URL is not a Postgres URL") // the URL may contain a password
	}
	cfg.ConnectTimeout = connectTimeout
	cfg.RuntimeParams["application_name"] = application
	dialer := &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3},
		Control:         userTimeout,
	}
	cfg.DialFunc = dialer.DialContext
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to hold a lock: %w", err)
	}
	if _, err := conn.Exec(ctx, sqlSetUp, pgx.QueryExecModeSimpleProtocol); err != nil {
		Close(conn)
		return nil, fmt.Errorf("set up the session of a lock: %w", err)
	}
	return conn, nil
}

// Close ends the session.
func Close(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = conn.Close(ctx)
}

// sqlSetUp removes the limits on waiting. The server must notice a client that has
// vanished, which takes hours by default. It runs in the open session: a pooler in
// session mode refuses connections that begin with settings.
const sqlSetUp = `SET statement_timeout = 0; SET lock_timeout = 0; SET idle_session_timeout = 0;
SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3; SET tcp_user_timeout = 5000`
