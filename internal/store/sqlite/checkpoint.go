package sqlite

import (
	"context"
	"database/sql"
	"log/slog"
	"sync/atomic"
	"time"
)

// A checkpoint copies the log back into the file. Left to SQLite, it is done by
// the commit that fills the log and holds the writer for tens of milliseconds,
// mostly in the second of a herd. So a connection of its own does it beside the
// writer, in a pause of the writing if there is one.
const (
	// checkpointRows is after how many rows written the log is worth copying back:
	// about 4,000 pages (16 MB).
	checkpointRows = 2000
	// checkpointQuiet is a pause, and checkpointWait how long one is waited for.
	checkpointQuiet = 100 * time.Millisecond
	checkpointWait  = 2 * time.Second
	// logPages is beyond what size (64 MB) the log is begun anew, for which the
	// writer must stand still until the last pages are copied.
	logPages = 16_000
)

// checkpoints is who copies back what the writer has written.
type checkpoints struct {
	db  *sql.DB
	w   *writer
	log *slog.Logger
	end context.CancelFunc
	off chan struct{} // closed when it has ended
}

// written is what of the writer its checkpoints go by.
type written struct {
	rows int           // since one was asked for; whose turn it is counts
	due  chan struct{} // has room for one
	last atomic.Int64  // when a transaction ended, in nanoseconds
}

// count is called at the end of a transaction, in its turn.
func (n *written) count() {
	n.last.Store(time.Now().UnixNano())
	if n.rows < checkpointRows {
		return
	}
	n.rows = 0
	select {
	case n.due <- struct{}{}:
	default: // has been asked for
	}
}

func (n *written) quiet() bool {
	return time.Since(time.Unix(0, n.last.Load())) >= checkpointQuiet
}

func startCheckpoints(path string, w *writer, log *slog.Logger) (*checkpoints, error) {
	db, err := sql.Open("sqlite", driverDSN(path))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	ctx, end := context.WithCancel(context.Background())
	c := &checkpoints{db: db, w: w, log: log, end: end, off: make(chan struct{})}
	go c.run(ctx)
	return c, nil
}

func (c *checkpoints) close() error {
	c.end()
	<-c.off
	return c.db.Close()
}

func (c *checkpoints) run(ctx context.Context) {
	defer close(c.off)
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.w.written.due:
		}
		c.awaitPause(ctx)
		if err := c.copyBack(ctx); err != nil && ctx.Err() == nil && !isBusy(err) {
			c.log.WarnContext(ctx, "checkpoint failed: the log grows until the next one", "err", err)
		}
	}
}

// awaitPause waits until nobody writes.
func (c *checkpoints) awaitPause(ctx context.Context) {
	ticker := time.NewTicker(checkpointQuiet / 4)
	defer ticker.Stop()
	for began := time.Now(); !c.w.written.quiet() && time.Since(began) < checkpointWait; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// copyBack copies what is in the log. The writer goes on meanwhile; it begins
// the log anew by itself if it finds all of it copied. Where it writes without a
// pause, it has to wait for that.
func (c *checkpoints) copyBack(ctx context.Context) error {
	pages, err := c.checkpoint(ctx)
	if err != nil || pages < logPages {
		return err
	}
	if _, err := c.checkpoint(ctx); err != nil { // what was written since, so that little is left
		return err
	}
	if err := c.w.take(ctx); err != nil {
		return err
	}
	defer c.w.give()
	_, err = c.checkpoint(ctx)
	return err
}

// checkpoint copies what can be copied without waiting for anybody, and returns
// how many pages the log has.
func (c *checkpoints) checkpoint(ctx context.Context) (pages int, err error) {
	var busy, copied int
	err = c.db.QueryRowContext(ctx, sqlCheckpoint).Scan(&busy, &pages, &copied)
	return pages, err
}
