package sqlite

import (
	"context"
	"database/sql"
	"log/slog"
	"sync/atomic"
	"time"
)

// A checkpoint copies the log back into the file. By default the commit that fills the
// log does it and holds the writer for tens of milliseconds, mostly in the second of a
// burst. So a separate connection does it, in a pause of the writer if there is one.
const (
	// checkpointRows is the number of written rows after which a checkpoint begins: about
	// 4,000 pages (16 MB).
	checkpointRows = 2000
	// checkpointQuiet is a pause, checkpointWait the longest wait for one.
	checkpointQuiet = 100 * time.Millisecond
	checkpointWait  = 2 * time.Second
	// logPages is the size (64 MB) from which the log is restarted: the writer must wait
	// until the last pages are copied.
	logPages = 16_000
)

// checkpoints copies the log back into the file.
type checkpoints struct {
	db  *sql.DB
	w   *writer
	log *slog.Logger
	end context.CancelFunc
	off chan struct{} // closed when it has ended
}

// written tracks the writer's progress for checkpoints.
type written struct {
	rows int           // since the last request; the current writer counts
	due  chan struct{} // has room for one
	last atomic.Int64  // when a transaction ended, in nanoseconds
}

// count is called at the end of a transaction.
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

// awaitPause waits for a pause of the writer.
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

// copyBack copies the log. The writer continues meanwhile, and restarts the log if all of
// it is copied. Without a pause in the writing, the writer has to wait for that.
func (c *checkpoints) copyBack(ctx context.Context) error {
	pages, err := c.checkpoint(ctx)
	if err != nil || pages < logPages {
		return err
	}
	if _, err := c.checkpoint(ctx); err != nil { // the pages written since, so that few are left
		return err
	}
	if err := c.w.take(ctx); err != nil {
		return err
	}
	defer c.w.give()
	_, err = c.checkpoint(ctx)
	return err
}

// checkpoint copies what it can without waiting, and returns the number of pages in the
// log.
func (c *checkpoints) checkpoint(ctx context.Context) (pages int, err error) {
	var busy, copied int
	err = c.db.QueryRowContext(ctx, sqlCheckpoint).Scan(&busy, &pages, &copied)
	return pages, err
}
