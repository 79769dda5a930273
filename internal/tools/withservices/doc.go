// Command withservices runs a command with a throw-away Postgres and Redis:
//
//	go run ./internal/tools/withservices -- go test ./...
//
// The command finds them by TEST_DATABASE_URL and TEST_REDIS_URL, and the
// programs of PgBouncer and Prometheus, which tests start themselves, by
// TEST_PGBOUNCER and TEST_PROMETHEUS. A variable that is already set is honoured, and its server is not started. The servers
// listen on random loopback ports, with a random password; they forget to sync
// to disk, which suits tests only. When the command ends they are stopped and
// their files removed, and withservices ends with the command's exit code.
//
// With -durable, Postgres keeps its files on the disk of the temporary folder
// and syncs every commit, as in production: for benchmarks.
//
// A server that is not installed is installed where that can be done without
// asking: as root on Debian and its kin. Otherwise withservices says loudly
// that it is missing and runs the command all the same, whose tests then skip;
// with REQUIRE_SERVICES=1, as in CI, it refuses instead.
package main
