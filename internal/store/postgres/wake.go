package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon/carillon/internal/schedule"
)

const (
	wakeEvery   = 5 * time.Millisecond // the least time between two notifications of a process
	wakeTimeout = time.Second
)

// bucketRange is a range of hash buckets; empty if not some. queues: runs wait in queues, or
// have left them.
type bucketRange struct {
	some        bool
	first, last int
	queues      bool
}

func (r *bucketRange) add(first, last int) {
	if r.some {
		first, last = min(first, r.first), max(last, r.last)
	}
	r.some, r.first, r.last = true, first, last
}

// wakingTx is a transaction that collects the leaders to wake once it is committed.
type wakingTx struct {
	pgx.Tx
	wake   *bucketRange
	fronts *fronts  // of the process
	opts   *Options // of the store
}

func asWaking(tx pgx.Tx) wakingTx {
	if one, ok := tx.(oneByOne); ok {
		tx = one.Tx
	}
	return tx.(wakingTx)
}

// openedBy are the options of the store of a transaction.
func openedBy(tx pgx.Tx) *Options { return asWaking(tx).opts }

// wakeListeners wakes the leaders of these overlap keys, or all leaders for none, once
// the transaction is committed.
func wakeListeners(tx pgx.Tx, overlapKeys ...string) {
	wake := asWaking(tx).wake
	if len(overlapKeys) == 0 {
		wake.add(0, schedule.Buckets-1)
	}
	for _, key := range overlapKeys {
		wake.add(schedule.Bucket(key), schedule.Bucket(key))
	}
}

// wakeQueues wakes the launchers that admit runs of queues, once the transaction is committed.
// placed are runs that may wait before others from now on.
func wakeQueues(tx pgx.Tx, placed ...*schedule.Run) {
	w := asWaking(tx)
	w.wake.queues = true
	w.placed(placed...)
}

// placed notes runs that may wait before others from now on.
func (w wakingTx) placed(runs ...*schedule.Run) {
	for _, r := range runs {
		w.fronts.placed(r)
	}
}

// notifier notifies leaders after a commit. Inside of transactions, notifications would
// let the commits of the whole cluster wait for each other. A notification may be lost:
// each tick reads changes too.
type notifier struct {
	pool *pgxpool.Pool
	log  *slog.Logger

	mu      sync.Mutex
	pending bucketRange
	running bool
	work    sync.WaitGroup
}

// wake notifies soon and does not wait.
func (n *notifier) wake(r bucketRange) {
	if !r.some && !r.queues {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.some {
		n.pending.add(r.first, r.last)
	}
	n.pending.queues = n.pending.queues || r.queues
	if !n.running {
		n.running = true
		n.work.Go(n.run)
	}
}

// run ends when nothing was pending for wakeEvery.
func (n *notifier) run() {
	for {
		n.mu.Lock()
		r := n.pending
		n.pending, n.running = bucketRange{}, r.some || r.queues
		n.mu.Unlock()
		if !r.some && !r.queues {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), wakeTimeout)
		if err := n.notify(ctx, r); err != nil {
			n.log.Warn("leaders and launchers were not woken, they look at their next tick", "err", err)
		}
		cancel()
		time.Sleep(wakeEvery)
	}
}

func (n *notifier) notify(ctx context.Context, r bucketRange) error {
	if r.queues {
		if _, err := n.pool.Exec(ctx, sqlWakeQueues); err != nil || !r.some {
			return err
		}
	}
	_, err := n.pool.Exec(ctx, sqlWake, fmt.Sprintf("%d-%d", r.first, r.last))
	return err
}
