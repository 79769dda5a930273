package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// held is a session that keeps one transaction open, such as that of a backup or of a forgotten
// psql: it has written, so it has an id, and its snapshot keeps Postgres from removing the entries of
// any row that has ended since.
type held struct {
	db   *sql.DB
	conn *sql.Conn
	xid  string
}

// hold opens the transaction, if the dose wants one.
func (s *site) hold(ctx context.Context) (*held, error) {
	if !s.dose.holds {
		return nil, nil
	}
	h := &held{}
	var err error
	if h.db, err = s.open(); err != nil {
		return nil, err
	}
	if h.conn, err = h.db.Conn(ctx); err == nil {
		h.xid, err = h.begin(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hold a transaction: %w", err), h.db.Close())
	}
	return h, nil
}

func (h *held) begin(ctx context.Context) (xid string, err error) {
	for _, statement := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "CREATE TEMP TABLE held (n int)", "INSERT INTO held VALUES (1)"} {
		if _, err := h.conn.ExecContext(ctx, statement); err != nil {
			return "", err
		}
	}
	return h.current(ctx)
}

func (h *held) current(ctx context.Context) (xid string, err error) {
	err = h.conn.QueryRowContext(ctx, "SELECT pg_current_xact_id_if_assigned()::text").Scan(&xid)
	return xid, err
}

// letGo ends the transaction. It fails unless it is the one that was opened: else the dose has proven
// less than its name says.
func (h *held) letGo(ctx context.Context) error {
	if h == nil {
		return nil
	}
	xid, err := h.current(ctx)
	if err == nil && xid != h.xid {
		err = fmt.Errorf("the transaction is %s now", xid)
	}
	if err != nil {
		err = fmt.Errorf("the transaction %s was not held to the end: %w", h.xid, err)
	}
	return errors.Join(err, h.conn.Close(), h.db.Close())
}
