package presence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/pgsession"
)

// Sessions takes presence locks in sessions of a Postgres database.
type Sessions struct {
	URL string
	// The statements of the store: TakePresence takes the lock of a number,
	// ServerGeneration reads the generation.
	TakePresence, ServerGeneration string
}

// Take opens a session and takes the lock in it.
func (l Sessions) Take(ctx context.Context, no int32) (Session, error) {
	conn, err := pgsession.Open(ctx, l.URL, "carillon-presence")
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, read: l.ServerGeneration}
	if _, err = conn.Exec(ctx, l.TakePresence, no); err == nil {
		// After the lock: a restart in between has another generation and no lock.
		err = conn.QueryRow(ctx, s.read).Scan(&s.generation)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("take advisory lock: %w", err)
	}
	return s, nil
}

type session struct {
	conn       *pgx.Conn
	read       string // statement that reads the generation
	generation string
}

func (s *session) Generation() string { return s.generation }

const (
	pingEvery = time.Second
	// pingTimeout is as long as a lease: by then others may take the keys anyway.
	pingTimeout = 3 * time.Second
)

// Wait reads the connection all the time, so that its end is known at once, and
// asks each second whether the server answers.
func (s *session) Wait(ctx context.Context) error {
	for {
		reading, cancel := context.WithTimeout(ctx, pingEvery)
		_, err := s.conn.WaitForNotification(reading)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("the session ended: %w", err)
		}
		if err := s.ping(ctx); err != nil {
			return err
		}
	}
}

func (s *session) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	var now string
	if err := s.conn.QueryRow(ctx, s.read).Scan(&now); err != nil {
		return fmt.Errorf("the session does not answer: %w", err)
	}
	if now != s.generation {
		return errors.New("the statistics of the server were reset (pg_stat_bgwriter.stats_reset), so the lock proves nothing")
	}
	return nil
}

func (s *session) Close() { pgsession.Close(s.conn) }
