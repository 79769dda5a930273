package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// A service is a kind of server that tests may need.
type service struct {
	name     string // as printed
	variable string // the environment variable that holds its URL, or its path if tests start it
	debian   string // the Debian package that brings it
	find     func() (string, error)
	start    func(ctx context.Context, o Options, program string) (*Server, error) // nil: tests start it
}

var errNotInstalled = errors.New("not installed")

var (
	postgres = service{"Postgres", "TEST_DATABASE_URL", "postgresql", findPostgres, startPostgres}
	redis    = service{"Redis", "TEST_REDIS_URL", "redis-server", findRedis, startRedis}
	bouncer  = service{"PgBouncer", "TEST_PGBOUNCER", "pgbouncer", findPgBouncer, nil}
	metrics  = service{"Prometheus", "TEST_PROMETHEUS", "prometheus", findPrometheus, nil}
)

// wanted lists the services whose variable is not set yet.
func wanted(getenv func(string) string) []service {
	var unset []service
	for _, s := range []service{postgres, redis, bouncer, metrics} {
		if getenv(s.variable) == "" {
			unset = append(unset, s)
		}
	}
	return unset
}

// findPostgres returns the folder of the newest Postgres. Debian keeps each
// major version in a folder of its own, off the PATH.
func findPostgres() (string, error) {
	if folder, err := newestPostgres("/usr/lib/postgresql"); err == nil {
		return folder, nil
	}
	program, err := exec.LookPath("initdb")
	if err != nil {
		return "", errNotInstalled
	}
	return filepath.Dir(program), nil
}

// newestPostgres returns ROOT/N/bin with the highest N that has a server: a
// machine may have the clients of one version and the server of another.
func newestPostgres(root string) (string, error) {
	programs, err := filepath.Glob(filepath.Join(root, "*", "bin", "initdb"))
	if err != nil {
		return "", fmt.Errorf("look for Postgres below %s: %w", root, err)
	}
	newest, folder := -1, ""
	for _, program := range programs {
		bin := filepath.Dir(program)
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
		if err == nil && version > newest {
			newest, folder = version, bin
		}
	}
	if folder == "" {
		return "", errNotInstalled
	}
	return folder, nil
}

func findRedis() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errNotInstalled
}

// findPgBouncer looks where Debian keeps it, too: off the PATH of most users.
func findPgBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errNotInstalled
}

// findPrometheus requires promtool in the same folder, as in every package of it.
func findPrometheus() (string, error) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		return "", errNotInstalled
	}
	if _, err := exec.LookPath(filepath.Join(filepath.Dir(program), "promtool")); err != nil {
		return "", errNotInstalled
	}
	return program, nil
}

// missing returns those services whose program is not on this machine.
func missing(services []service) []service {
	var absent []service
	for _, s := range services {
		if _, err := s.find(); err != nil {
			absent = append(absent, s)
		}
	}
	return absent
}

// provide installs missing programs where it can, and returns the services
// that can be started. It fails only when the rest is required.
func provide(services []service) ([]service, error) {
	absent := missing(services)
	if len(absent) > 0 && canInstall() {
		if err := install(absent); err != nil {
			fmt.Fprintln(os.Stderr, "servers:", err)
		}
		absent = missing(services)
	}
	if len(absent) == 0 {
		return services, nil
	}

	var names, packages, variables []string
	for _, s := range absent {
		names, packages = append(names, s.name), append(packages, s.debian)
		variables = append(variables, s.variable)
	}
	problem := fmt.Errorf("%s not found: install it (Debian: apt-get install %s), or set %s",
		strings.Join(names, " and "), strings.Join(packages, " "), strings.Join(variables, " and "))
	if os.Getenv("REQUIRE_SERVICES") == "1" {
		return nil, problem
	}
	fmt.Fprintf(os.Stderr, "servers: WARNING: %v\nservers: WARNING: the tests that need it will be skipped\n", problem)

	var present []service
	for _, s := range services {
		if _, err := s.find(); err == nil {
			present = append(present, s)
		}
	}
	return present, nil
}

// Installed says whether every server is on this machine already.
func Installed() bool { return len(missing(wanted(func(string) string { return "" }))) == 0 }
