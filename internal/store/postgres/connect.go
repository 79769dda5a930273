package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillon/carillon/internal/schedule"
)

// The states in which a server refuses connections for now: it starts, it stops,
// or it has too many. See https://www.postgresql.org/docs/current/errcodes-appendix.html.
var notNow = []string{"57P03", "57P01", "53300"}

// Unreachable reports whether err says that no server answers yet. A wrong
// password, an unknown database or a DSN that cannot be read is a definite answer:
// waiting does not help.
func Unreachable(err error) bool {
	var unreadable *pgconn.ParseConfigError
	switch {
	case err == nil, errors.As(err, &unreadable), errors.Is(err, schedule.ErrUnsupported), errors.Is(err, context.Canceled):
		return false
	case stateOf(err) != "":
		return slices.Contains(notNow, stateOf(err))
	}
	return true
}

// FromDriver reports whether err comes from Postgres or a connection to it. A
// plain context error does not say where it comes from.
func FromDriver(err error) bool {
	var connect *pgconn.ConnectError
	var driver interface{ SafeToRetry() bool } // pgconn's errors of a connection
	return stateOf(err) != "" || errors.As(err, &connect) || errors.As(err, &driver) || errors.Is(err, pgconn.ErrConnClosed)
}

// Address is the server and the database that a DSN names, without user and
// password, as in "db:5432/carillon".
func Address(dsn string) string {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return "(DATABASE_URL cannot be read)"
	}
	return fmt.Sprintf("%s/%s", net.JoinHostPort(config.Host, fmt.Sprint(config.Port)), config.Database)
}
