package postgres

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon/carillon/internal/test/storetest"
)

var seams = map[storetest.Seam]string{storetest.SeamWaiting: lockWaiting, storetest.SeamDue: sqlLockQueuedDue}

// Before makes it a storetest.Seamed: its connections are replaced by some that are watched.
func (s *Store) Before(at storetest.Seam, nth int, do func()) (over func()) {
	watched := s.pool.Config()
	watched.ConnConfig.Tracer = &seam{begins: seams[at], left: int64(nth), do: do}
	pool, err := pgxpool.NewWithConfig(context.Background(), watched)
	if err != nil {
		panic(err)
	}
	AwaitNotifications(s)
	before := s.pool
	s.pool = pool
	return func() {
		AwaitNotifications(s)
		s.pool = before
		pool.Close()
	}
}

// seam calls do before a statement.
type seam struct {
	begins string
	left   int64
	do     func()
}

func (s *seam) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(data.SQL, s.begins) && atomic.AddInt64(&s.left, -1) == 0 {
		s.do()
	}
	return ctx
}

func (s *seam) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
