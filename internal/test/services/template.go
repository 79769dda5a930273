package services

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"sync"

	"github.com/jackc/pgx/v5"
)

// known holds the templates that this process has already seen.
var known = struct {
	sync.Mutex
	names map[origin]string
}{names: map[origin]string{}}

// An origin is what a template is made on and by.
type origin struct {
	server, function string
}

// template returns the name of the migrated database on the server that tests
// copy, and makes it if there is none.
func template(ctx context.Context, server string, migrate Migrate) (string, error) {
	known.Lock()
	defer known.Unlock()
	from := origin{server, functionName(migrate)}
	if name, ok := known.names[from]; ok {
		return name, nil
	}
	name, err := templateName(migrate)
	if err != nil {
		return "", err
	}
	if err := makeTemplate(ctx, server, name, migrate); err != nil {
		return "", err
	}
	known.names[from] = name
	return name, nil
}

const (
	// The lock goes with the connection, and so does not outlive a test
	// binary that is killed.
	lockTemplate   = `SELECT pg_advisory_lock(hashtextextended($1, 0))`
	templateExists = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
)

// makeTemplate migrates under a name of its own and renames when all is done:
// a database with the template's name is always complete. The lock is for the
// processes of one test binary.
func makeTemplate(ctx context.Context, server, name string, migrate Migrate) (err error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()

	if _, err := conn.Exec(ctx, lockTemplate, name); err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	var exists bool
	if err := conn.QueryRow(ctx, templateExists, name).Scan(&exists); err != nil {
		return fmt.Errorf("look for %s: %w", name, err)
	}
	if exists {
		return nil
	}

	unfinished := name + "_unfinished"
	run := func(statement string) error {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
		return nil
	}
	if err := run("DROP DATABASE IF EXISTS " + quote(unfinished) + " WITH (FORCE)"); err != nil {
		return err
	}
	if err := run("CREATE DATABASE " + quote(unfinished) + " TEMPLATE template0"); err != nil {
		return err
	}
	database, err := withDatabase(server, unfinished)
	if err != nil {
		return err
	}
	if err := migrate(ctx, database); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	// A connection to the template would make every copy of it fail.
	if err := run("ALTER DATABASE " + quote(unfinished) + " WITH ALLOW_CONNECTIONS false"); err != nil {
		return err
	}
	return run("ALTER DATABASE " + quote(unfinished) + " RENAME TO " + quote(name))
}

// templateName names the template after all that makes it: this test binary,
// which holds the migrations and what runs them, and which of its functions
// that is. So a changed migration finds no stale template, and the processes
// of one binary share theirs.
func templateName(migrate Migrate) (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this test binary: %w", err)
	}
	binary, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read this test binary: %w", err)
	}
	defer binary.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, binary); err != nil {
		return "", fmt.Errorf("read this test binary: %w", err)
	}
	_, _ = io.WriteString(sum, functionName(migrate))
	return "carillon_template_" + hex.EncodeToString(sum.Sum(nil))[:16], nil
}

func functionName(migrate Migrate) string {
	return runtime.FuncForPC(reflect.ValueOf(migrate).Pointer()).Name()
}
