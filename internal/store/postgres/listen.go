package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillon/carillon/internal/backoff"
	"github.com/carillon/carillon/internal/schedule"
)

// quiet is how long a listener waits before it checks that the server is still there.
const quiet = 15 * time.Second

// Listen calls wake with the first and last hash bucket when a writer other than their
// leader's term has inserted a run, ended one in flight or requested a cancel, in any
// process, and after each connect, because earlier notifications were missed. Several
// causes may share one call. It blocks until ctx ends.
func (s *Store) Listen(ctx context.Context, wake func(first, last int)) error {
	return s.listen(ctx, sqlListen, func(payload string) { wake(bucketsIn(payload)) })
}

// ListenQueues calls wake when runs have entered a queue or left one, in any process, and after
// each connect. Several causes may share one call. It blocks until ctx ends.
func (s *Store) ListenQueues(ctx context.Context, wake func()) error {
	return s.listen(ctx, sqlListenQueues, func(string) { wake() })
}

// listen calls wake with the payload of each notification, and with an empty one after each
// connect.
func (s *Store) listen(ctx context.Context, statement string, wake func(payload string)) error {
	pause := backoff.Delays{First: 50 * time.Millisecond, Last: 5 * time.Second}
	for {
		err := s.listenOnce(ctx, statement, func(payload string) {
			pause.Reset()
			wake(payload)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait := pause.Next()
		s.log.WarnContext(ctx, "lost the connection for notifications", "err", err, "again_in", wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// listenOnce listens on a connection of its own: it would keep a pooled one forever.
func (s *Store) listenOnce(ctx context.Context, statement string, wake func(payload string)) error {
	conn, err := pgx.ConnectConfig(ctx, s.unlimited())
	if err != nil {
		return fmt.Errorf("connect listener: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	wake("")
	for {
		heard, err := waitFor(ctx, conn)
		if err != nil {
			return err
		}
		if heard != nil {
			wake(heard.Payload)
		}
	}
}

// bucketsIn returns the buckets that a notification names; all if it names none, as in
// earlier releases.
func bucketsIn(payload string) (first, last int) {
	if n, err := fmt.Sscanf(payload, "%d-%d", &first, &last); err != nil || n < 2 {
		return 0, schedule.Buckets - 1
	}
	return first, last
}

// waitFor waits for one notification; nil: none came for quiet, and the connection is
// alive.
func waitFor(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	heard, err := conn.WaitForNotification(waiting)
	if err == nil {
		return heard, nil
	}
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("wait for notification: %w: %w", pgconn.ErrConnClosed, err) // err may be a bare EOF
	}
	asking, cancelAsking := context.WithTimeout(ctx, connectTimeout)
	defer cancelAsking()
	if err := conn.Ping(asking); err != nil {
		return nil, fmt.Errorf("ping listener: %w", err)
	}
	return nil, nil
}
