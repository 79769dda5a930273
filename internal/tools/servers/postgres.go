package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// superuser is the one role of a test Postgres.
const superuser = "carillon"

// startPostgres makes a new cluster with the programs in folder bin, and
// starts it.
func startPostgres(ctx context.Context, o Options, bin string) (*Server, error) {
	owner, err := serverAccount("postgres")
	if err != nil {
		return nil, err
	}
	f, err := newFolder(o.Base(), owner)
	if err != nil {
		return nil, err
	}
	s, err := startPostgresIn(ctx, o, f, bin)
	if err != nil {
		f.remove()
		return nil, err
	}
	return s, nil
}

func startPostgresIn(ctx context.Context, o Options, f folder, bin string) (*Server, error) {
	password := rand.Text()
	if err := initPostgres(ctx, f, bin, password); err != nil {
		return nil, err
	}
	return startOnFreePort(ctx, func(port int) (*Server, error) {
		// SIGQUIT: stop at once, without a checkpoint.
		s, err := spawn(f, syscall.SIGQUIT, filepath.Join(bin, "postgres"), postgresArgs(o, f, port, bin)...)
		if err != nil {
			return nil, err
		}
		s.url = fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, password, port)
		s.ready = func(ctx context.Context) bool {
			return exec.CommandContext(ctx, filepath.Join(bin, "pg_isready"),
				"--quiet", "--host=127.0.0.1", "--port="+strconv.Itoa(port), "--dbname=postgres").Run() == nil
		}
		return s, nil
	})
}

// initPostgres makes the cluster. It has a password although it listens on
// loopback only: a superuser without one would let every user of this machine
// run programs as the server's user.
func initPostgres(ctx context.Context, f folder, bin, password string) error {
	secret := filepath.Join(f.path, "password")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return err
	}
	if err := f.give(secret); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, filepath.Join(bin, "initdb"),
		"--pgdata="+clusterIn(f), "--username="+superuser, "--pwfile="+secret,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
	command.Dir = f.path
	command.SysProcAttr = f.owner.attributes()
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, lastLines(string(output), 20))
	}
	return nil
}

func clusterIn(f folder) string { return filepath.Join(f.path, "cluster") }

func postgresArgs(o Options, f folder, port int, bin string) []string {
	args := []string{"-D", clusterIn(f), "-p", strconv.Itoa(port)}
	settings := []string{
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=",
		"max_connections=500", // many packages and tests at once
		// Its shared memory goes with the folder, however the server ends.
		"dynamic_shared_memory_type=mmap",
		"timezone=UTC",
		"log_timezone=UTC",
	}
	if o.Durable {
		settings = append(settings, "shared_buffers=2GB", "max_wal_size=8GB")
		// At hand for a database that turns it on, and of no cost to the others.
		if _, err := os.Stat(filepath.Join(bin, "..", "lib", "pg_stat_statements.so")); err == nil {
			settings = append(settings, "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=none", "compute_query_id=off")
		}
	} else {
		// Nothing here outlives the tests, so nothing need survive a crash.
		settings = append(settings, "fsync=off", "full_page_writes=off",
			"wal_level=minimal", "max_wal_senders=0", "max_wal_size=256MB")
	}
	if o.CommitTimes {
		settings = append(settings, "track_commit_timestamp=on")
	}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}
