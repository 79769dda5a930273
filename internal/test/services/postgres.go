package services

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Migrate brings the empty database at url to the current schema, and leaves
// no connection open. It is passed in, so that this package need not know the
// schema. It must be a function that always does the same, not a closure whose
// doings depend on what it captured: its result is kept and copied.
type Migrate func(ctx context.Context, url string) error

// Postgres makes a migrated database for this test alone and returns its URL.
// The migrations run once per server and test binary: the database is a copy
// of a template, and is dropped when the test ends. With a nil migrate the
// database is empty.
//
// It waits for a real server, so call it outside of a synctest bubble.
//
// On a server of your own the templates stay (carillon_template_*): drop them
// whenever no test runs.
func Postgres(t testing.TB, migrate Migrate) string {
	t.Helper()
	server := serverURL(t, "TEST_DATABASE_URL")
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()

	source := "template0"
	if migrate != nil {
		var err error
		if source, err = template(ctx, server, migrate); err != nil {
			t.Fatalf("prepare the template database: %v", err)
		}
	}
	name := "carillon_test_" + strings.ToLower(rand.Text())
	if err := execAlone(ctx, server, "CREATE DATABASE "+quote(name)+" TEMPLATE "+quote(source)+" STRATEGY file_copy"); err != nil {
		t.Fatalf("make a database for this test: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		// FORCE: a connection that the test forgot is not worth a failure.
		if err := execAlone(ctx, server, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the database of this test: %v", err)
		}
	})

	own, err := withDatabase(server, name)
	if err != nil {
		t.Fatalf("name the database of this test: %v", err)
	}
	return own
}

// withDatabase returns the server's URL with another database.
func withDatabase(server, name string) (string, error) {
	parsed, err := url.Parse(server)
	if err != nil {
		// Not %w: the parser repeats the URL, and with it the password.
		return "", errors.New("TEST_DATABASE_URL is not a URL; it must look like postgres://user:password@127.0.0.1:5432/postgres")
	}
	parsed.Path = "/" + name
	return parsed.String(), nil
}

// execAlone runs one statement on a connection of its own, as CREATE and DROP
// DATABASE need.
func execAlone(ctx context.Context, server, statement string) (err error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, statement)
	return err
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
