package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/test/services/reserve"
)

// PgBouncer starts a PgBouncer in front of a test's database and returns the
// database's URL through it. mode is transaction, statement or session. It ends
// with the test.
func PgBouncer(t testing.TB, database, mode string) string {
	t.Helper()
	program := serverURL(t, "TEST_PGBOUNCER")
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	port := reserve.Number(t)
	through, err := withAddress(database, port)
	if err != nil {
		t.Fatal(err)
	}
	if err = startPgBouncer(ctx, t, program, database, mode, port); err == nil {
		err = awaitPostgres(ctx, through)
	}
	if err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return through
}

// startPgBouncer starts one as another user where this is root, whom it
// refuses.
func startPgBouncer(ctx context.Context, t testing.TB, program, database, mode string, port int) error {
	config, err := bouncerConfig(t, database, mode, port)
	if err != nil {
		return err
	}
	command := exec.CommandContext(context.WithoutCancel(ctx), program, "-q", config.path)
	command.Dir = filepath.Dir(config.path)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: config.owner}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return nil
}

// bouncerFiles is where a PgBouncer's configuration lies, and whose it is.
type bouncerFiles struct {
	path  string
	owner *syscall.Credential // nil: this process' own user
}

func bouncerConfig(t testing.TB, database, mode string, port int) (files bouncerFiles, err error) {
	server, err := url.Parse(database)
	if err != nil {
		return files, errors.New("the database's URL is none")
	}
	folder, err := os.MkdirTemp("", "carillon-pgbouncer-")
	if err != nil {
		return files, err
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	files.path = filepath.Join(folder, "pgbouncer.ini")
	password, _ := server.User.Password()
	texts := map[string]string{
		// With the same password on both sides: this is a way to a superuser.
		"users": fmt.Sprintf("%q %q\n", server.User.Username(), password),
		"pgbouncer.ini": fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = %s
max_client_conn = 100
default_pool_size = 10
`, server.Hostname(), server.Port(), port, filepath.Join(folder, "users"), mode),
	}
	if os.Getuid() == 0 {
		if files.owner, err = anyUser("postgres", "nobody"); err != nil {
			return files, err
		}
	}
	paths := []string{folder}
	for name, text := range texts {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return files, err
		}
		paths = append(paths, path)
	}
	for _, path := range paths {
		if files.owner == nil {
			break
		}
		if err := os.Chown(path, int(files.owner.Uid), int(files.owner.Gid)); err != nil {
			return files, err
		}
	}
	return files, nil
}

func anyUser(names ...string) (*syscall.Credential, error) {
	for _, name := range names {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(uidErr, gidErr)
	}
	return nil, fmt.Errorf("none of the users %q exists", names)
}

// withAddress returns the database's URL at another port of this machine.
func withAddress(database string, port int) (string, error) {
	parsed, err := url.Parse(database)
	if err != nil {
		return "", errors.New("the database's URL is none")
	}
	parsed.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return parsed.String(), nil
}

// awaitPostgres waits until a client is let in and answered.
func awaitPostgres(ctx context.Context, database string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		conn, err := pgx.Connect(ctx, database)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		case <-poll.C:
		}
	}
}
