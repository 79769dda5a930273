package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
)

// quiet is how long a listener hears nothing before it asks whether the other
// end is still there.
const quiet = 15 * time.Second

// Listen calls wake whenever a run was inserted by ChangeSchedules or
// ChangeRun, a run in flight ended, or a cancel was asked for, here or in
// another process, and after every (re)connect, as what happened before was not
// heard. Several causes may come as one call. It blocks until ctx ends.
func (s *Store) Listen(ctx context.Context, wake func()) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 5*time.Second
	for {
		err := s.listenOnce(ctx, func() {
			pause.Reset()
			wake()
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait := pause.NextBackOff()
		s.log.WarnContext(ctx, "listener lost", "err", err, "again_in", wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// listenOnce listens on a connection of its own, never one of the pool: it
// would keep it for ever.
func (s *Store) listenOnce(ctx context.Context, wake func()) error {
	conn, err := pgx.ConnectConfig(ctx, s.unlimited())
	if err != nil {
		return fmt.Errorf("connect listener: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, sqlListen); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	wake()
	for {
		heard, err := waitFor(ctx, conn)
		if err != nil {
			return err
		}
		if heard {
			wake()
		}
	}
}

// waitFor waits for one notification, or finds the connection alive after a
// while of quiet.
func waitFor(ctx context.Context, conn *pgx.Conn) (heard bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	_, err = conn.WaitForNotification(waiting)
	if err == nil {
		return true, nil
	}
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return false, fmt.Errorf("wait for notification: %w", err)
	}
	asking, cancelAsking := context.WithTimeout(ctx, connectTimeout)
	defer cancelAsking()
	if err := conn.Ping(asking); err != nil {
		return false, fmt.Errorf("ping listener: %w", err)
	}
	return false, nil
}
