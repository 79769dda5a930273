package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/backoff"
	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
)

// scan reads the columns of one row.
type scan func(columns ...any) error

// querier is a transaction, or the readers.
type querier interface {
	query(ctx context.Context, statement string, each func(scan) error, args ...any) error
}

// writer is the one connection that writes. Its statements are prepared once:
// a transaction of 1,000 rows is then mostly SQLite's own work.
type writer struct {
	db      *sql.DB
	path    string
	log     *slog.Logger
	file    os.FileInfo   // the file that was opened
	writing chan struct{} // filled by the current writer
	conn    *sql.Conn     // nil: to be opened by the next transaction
	stmts   map[string]*sql.Stmt

	queuedRetry schedule.RetryPolicy // as Options have it

	lockedSince time.Time // first transaction that another process kept out since it committed; zero: the last one was not
	lockedAt    int64     // the data version then
	endedTwice  atomic.Uint64
	failed      error // why the last transaction was not written: a full or broken disk; nil: it was

	written written
}

func openWriter(path string, log *slog.Logger) (*writer, error) {
	// Checkpoints are made elsewhere; at 40,000 pages (160 MB) the writer makes
	// one itself, should they not come. The log is cut off beyond 192 MB only: where
	// it grows again at each burst, the filesystem fills each page with zeros first.
	db, err := sql.Open("sqlite", driverDSN(path, "journal_mode(WAL)", "wal_autocheckpoint(40000)",
		"journal_size_limit(201326592)", "cache_size(-65536)"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	w := &writer{db: db, path: path, log: log, writing: make(chan struct{}, 1)}
	w.written.due = make(chan struct{}, 1)
	// The first connection makes the file a database with a log, before readers come.
	if err := db.Ping(); err != nil {
		return nil, joinClose(err, db.Close)
	}
	if w.file, err = os.Stat(path); err != nil {
		return nil, joinClose(err, db.Close)
	}
	return w, nil
}

func (w *writer) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case w.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) give() { <-w.writing }

// tx is a transaction under way. Its statements are not interrupted one by one
// (that costs a goroutine each, and they are short); it ends between them.
type tx struct {
	w       *writer
	ended   func() error // of the caller's context
	changed changed      // see Store.write
	queues  *bool        // runs have entered a queue or left one, or a queue was changed
}

// transact runs body in one transaction that begins by taking the write lock.
func (w *writer) transact(ctx context.Context, body func(context.Context, tx) error) error {
	if err := w.take(ctx); err != nil {
		return err
	}
	defer w.give()
	if err := w.checkFile(); err != nil {
		return err
	}
	t := tx{w: w, ended: ctx.Err, changed: make(changed), queues: new(bool)}
	uncancelled := context.WithoutCancel(ctx)
	if _, err := t.exec(ctx, sqlBegin); err != nil { // may wait for another process
		if ctx.Err() != nil {
			w.rollback(uncancelled) // it may have begun before the interrupt came
		}
		return w.kept(ctx, err)
	}
	w.lockedSince = time.Time{}
	committed := false
	defer func() { // also when body panics
		if !committed {
			w.rollback(uncancelled)
		}
	}()
	if err := body(uncancelled, t); err != nil {
		return w.note(err)
	}
	failpoint.Hit(failpoint.Committing)
	if _, err := t.exec(uncancelled, sqlCommit); err != nil {
		return w.note(err)
	}
	committed, w.failed = true, nil
	w.written.count()
	failpoint.Hit(failpoint.Committed)
	return nil
}

func (t tx) exec(ctx context.Context, statement string, args ...any) (rows int64, err error) {
	if err := t.ended(); err != nil {
		return 0, err
	}
	stmt, err := t.w.stmt(ctx, statement) //nolint:sqlclosecheck // kept as long as its connection
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	if rows, err = result.RowsAffected(); statement != sqlBegin && statement != sqlCommit {
		t.w.written.rows += int(rows) // else those of the statement before
	}
	return rows, err
}

func (t tx) query(ctx context.Context, statement string, each func(scan) error, args ...any) error {
	if err := t.ended(); err != nil {
		return err
	}
	stmt, err := t.w.stmt(ctx, statement)
	if err != nil {
		return err
	}
	return run(ctx, stmt, each, args)
}

func (w *writer) stmt(ctx context.Context, statement string) (*sql.Stmt, error) {
	if stmt := w.stmts[statement]; stmt != nil {
		return stmt, nil
	}
	if w.conn == nil {
		conn, err := w.db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		w.conn = conn
		// SQLite's own wait for another process' lock cannot be interrupted:
		// keep it short and come back, see write.
		if _, err := conn.ExecContext(ctx, sqlWaitShort); err != nil {
			return nil, err
		}
	}
	if w.stmts == nil {
		w.stmts = make(map[string]*sql.Stmt)
	}
	stmt, err := w.conn.PrepareContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	w.stmts[statement] = stmt
	return stmt, nil
}

// rollback leaves the connection without a transaction. Where that is in
// doubt, the next transaction gets a new connection.
func (w *writer) rollback(ctx context.Context) {
	if stmt, err := w.stmt(ctx, sqlRollback); err == nil { //nolint:sqlclosecheck // kept as long as its connection
		if _, err = stmt.ExecContext(ctx); err == nil {
			return
		}
	}
	w.closeStatements()
	if w.conn != nil {
		_ = w.conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it for good
		_ = w.conn.Close()
		w.conn = nil
	}
}

// putBack gives the connection back to its pool of one.
func (w *writer) putBack() error {
	w.closeStatements()
	if w.conn == nil {
		return nil
	}
	conn := w.conn
	w.conn = nil
	_, err := conn.ExecContext(context.Background(), sqlWaitLong)
	return joinClose(err, conn.Close)
}

// closeStatements must come before the end of their connection: the driver
// follows their pointer into it.
func (w *writer) closeStatements() {
	for _, stmt := range w.stmts {
		_ = stmt.Close() // repeats the error of its last run, which has been told
	}
	w.stmts = nil
}

// lend hands the connection out for what is done once in a file's life.
func (w *writer) lend(ctx context.Context, use func(*sql.DB) error) error {
	if err := w.take(ctx); err != nil {
		return err
	}
	defer w.give()
	if err := w.putBack(); err != nil {
		return err
	}
	return use(w.db)
}

func (w *writer) close() error {
	w.writing <- struct{}{} // after the transaction that is under way
	defer w.give()
	return joinClose(w.putBack(), w.db.Close)
}

// write runs body in one transaction, and again while another process holds
// the file's lock, for up to five seconds. What body collects must start empty
// each time. What it has noted in tx.changed is written before the commit.
func (s *Store) write(ctx context.Context, change func(context.Context, tx) error) error {
	queues, woken := false, false
	body := func(ctx context.Context, t tx) error {
		queues, t.queues = false, &queues
		if err := change(ctx, t); err != nil {
			return err
		}
		woken = t.changed[consumerWoken] != nil
		return t.writeChanges(ctx, s.Now())
	}
	err := s.writer.transact(ctx, body)
	if isBusy(err) {
		until := time.Now().Add(timeout)
		err = backoff.Retry(ctx, backoff.Delays{First: 20 * time.Millisecond, Last: 500 * time.Millisecond},
			func() error { return s.writer.transact(ctx, body) },
			func(err error) bool { return isBusy(err) && time.Now().Before(until) })
	}
	if err == nil && queues {
		s.queueWakes.call()
	}
	if err == nil && woken {
		s.wakes.call()
	}
	var held lockHeld
	if errors.As(err, &held) {
		return held.explain()
	}
	return diskFailed(err)
}

const timeout = 5 * time.Second

// readers are the connections that only read.
type readers struct {
	db *sql.DB

	mu    sync.Mutex
	stmts map[string]*sql.Stmt
}

func openReaders(path string, conns int) (*readers, error) {
	db, err := sql.Open("sqlite", driverDSN(path, "query_only(1)"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return &readers{db: db, stmts: make(map[string]*sql.Stmt)}, nil
}

func (r *readers) query(ctx context.Context, statement string, each func(scan) error, args ...any) error {
	stmt, err := r.stmt(ctx, statement)
	if err != nil {
		return err
	}
	return run(ctx, stmt, each, args)
}

func (r *readers) stmt(ctx context.Context, statement string) (*sql.Stmt, error) {
	r.mu.Lock()
	stmt := r.stmts[statement]
	r.mu.Unlock()
	if stmt != nil {
		return stmt, nil
	}
	stmt, err := r.db.PrepareContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if earlier := r.stmts[statement]; earlier != nil {
		return earlier, stmt.Close() //nolint:sqlclosecheck // the other one is kept
	}
	r.stmts[statement] = stmt
	return stmt, nil
}

func run(ctx context.Context, stmt *sql.Stmt, each func(scan) error, args []any) error {
	rows, err := stmt.QueryContext(ctx, args...)
	return eachRow(rows, err, each)
}

// eachRow hands over every row of an answer, and closes it.
func eachRow(rows *sql.Rows, err error, each func(scan) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// joinClose closes what is no longer wanted because of err, and says both.
func joinClose(err error, closeIt func() error) error {
	if closeErr := closeIt(); closeErr != nil {
		return errors.Join(err, fmt.Errorf("close: %w", closeErr))
	}
	return err
}
