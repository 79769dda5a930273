package postgres_test

import (
	"context"
	"encoding/binary"
	"flag"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
)

var changesFor = flag.Duration("changes.for", 2*time.Second, "how long TestEachReaderReadsEachChangeOnce writes changes")

const (
	changeReaders = 8
	changeWriters = 8
	changeEvery   = 8 * time.Millisecond // of a writer: a thousand a second together
)

// Eight readers read while a thousand edits a second commit, some in savepoints, and one
// transaction is open all the time.
func TestEachReaderReadsEachChangeOnce(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	term := lead(t, store)
	var written atomic.Uint64
	slow, err := connect(t, url).Begin(t.Context())
	if err == nil {
		err = noteNumber(t.Context(), slow, written.Add(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	readers := make([]*changeReader, changeReaders)
	for i := range readers {
		readers[i] = &changeReader{conn: connect(t, url), term: term, times: make(map[uint64]int)}
		readers[i].read(t)
	}
	var reading, writing sync.WaitGroup
	done := make(chan struct{})
	for _, r := range readers {
		reading.Go(func() {
			tick := time.NewTicker(changeEvery)
			defer tick.Stop()
			for {
				select {
				case <-done:
					return
				case <-tick.C:
					r.read(t)
				}
			}
		})
	}
	until := time.Now().Add(*changesFor)
	for i := range changeWriters {
		conn := connect(t, url)
		writing.Go(func() {
			tick := time.NewTicker(changeEvery)
			defer tick.Stop()
			for n := i; time.Now().Before(until); n++ {
				<-tick.C
				if err := edit(t.Context(), conn, written.Add(1), n%4 == 0); err != nil {
					t.Errorf("edit: %v", err)
					return
				}
			}
		})
	}
	writing.Wait()
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(done)
	reading.Wait()
	for _, r := range readers {
		r.read(t)
		for n := range written.Load() {
			if times := r.times[n+1]; times != 1 {
				t.Fatalf("a reader has read change %d of %d %d times", n+1, written.Load(), times)
			}
		}
	}
	took := readers[0].took
	slices.Sort(took)
	t.Logf("%d changes in %s; of %d readings the median took %s", written.Load(), *changesFor, len(took), took[len(took)/2])
}

// changeReader reads changes as the leader of a shard does.
type changeReader struct {
	conn     *pgx.Conn
	term     schedule.Term
	position string
	times    map[uint64]int // that a change was read
	took     []time.Duration
}

func (r *changeReader) read(t *testing.T) {
	began := time.Now()
	next, err := postgres.ChangesAfter(t.Context(), r.conn, r.term, r.position, func(keys [][]byte) {
		for _, key := range keys {
			r.times[binary.BigEndian.Uint64(key)]++
		}
	})
	if err != nil {
		t.Errorf("read changes: %v", err)
		return
	}
	r.position, r.took = next, append(r.took, time.Since(began))
}

// edit commits one change, in a savepoint if it is to be.
func edit(ctx context.Context, conn *pgx.Conn, number uint64, savepoint bool) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if savepoint {
			return pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error { return noteNumber(ctx, inner, number) })
		}
		return noteNumber(ctx, tx, number)
	})
}

func noteNumber(ctx context.Context, tx pgx.Tx, number uint64) error {
	_, err := tx.Exec(ctx, `INSERT INTO changes (kind, first_bucket, last_bucket, keys) VALUES (2, 0, 1023, ARRAY[$1::bytea])`,
		binary.BigEndian.AppendUint64(nil, number))
	return err
}
