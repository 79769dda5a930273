// Package services gives each test a Postgres database or a Redis of its
// own, on the servers that internal/tools/withservices starts for `make test`
// (or on those that TEST_DATABASE_URL and TEST_REDIS_URL name), and a PgBouncer
// before it where a test wants one.
//
// It takes no step in a slot's life: only tests import it. Without a server a
// test is skipped, and says so; with REQUIRE_SERVICES=1, as in CI, it fails.
package services

import (
	"os"
	"testing"
	"time"
)

// stepLimit bounds the set-up of one test on a busy machine.
const stepLimit = 60 * time.Second

// serverURL returns the URL that the variable holds, or ends the test.
func serverURL(t testing.TB, variable string) string {
	t.Helper()
	url := os.Getenv(variable)
	if url != "" {
		return url
	}
	if os.Getenv("REQUIRE_SERVICES") == "1" {
		t.Fatalf("%s is not set, and REQUIRE_SERVICES=1 wants this test run: run it with `make test`", variable)
	}
	t.Skipf("%s is not set: run with `make test` to have a server started", variable)
	return ""
}
