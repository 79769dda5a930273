package services_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/carillon/carillon/internal/test/services"
)

// migrations counts how often migrate ran in this process.
var migrations atomic.Int32

// migrate replaces the real migrations.
func migrate(ctx context.Context, url string) error {
	migrations.Add(1)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `CREATE TABLE bells (name text PRIMARY KEY)`)
	return errors.Join(err, conn.Close(ctx))
}

func TestEachTestHasItsOwnMigratedDatabase(t *testing.T) {
	urls := make(chan string, 8)
	t.Run("tests", func(t *testing.T) {
		for range cap(urls) {
			t.Run("one of several at once", func(t *testing.T) {
				t.Parallel()
				url := services.Postgres(t, migrate)
				urls <- url
				conn := connect(t, url)
				// A second such row in the same database would be refused.
				if _, err := conn.Exec(t.Context(), `INSERT INTO bells VALUES ('bourdon')`); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if len(urls) == 0 {
		t.Skip("no server: the subtests were skipped")
	}
	if ran := migrations.Load(); ran > 1 {
		t.Errorf("the migrations ran %d times, want at most once", ran)
	}
	for range cap(urls) {
		if conn, err := pgx.Connect(t.Context(), <-urls); err == nil {
			_ = conn.Close(t.Context())
			t.Error("the database of a test that has ended is still there")
		}
	}
}

func TestWithoutMigrationsTheDatabaseIsEmpty(t *testing.T) {
	conn := connect(t, services.Postgres(t, nil))
	var tables int
	const count = `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`
	if err := conn.QueryRow(t.Context(), count).Scan(&tables); err != nil {
		t.Fatal(err)
	}
	if tables != 0 {
		t.Errorf("the database has %d tables, want none", tables)
	}
}

func TestTwoRedisDatabasesDoNotSeeEachOther(t *testing.T) {
	first, second := openRedis(t, services.Redis(t)), openRedis(t, services.Redis(t))
	if err := first.Set(t.Context(), "bell", "bourdon", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := second.Get(t.Context(), "bell").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("the second database answers %v for a key of the first, want %v", err, redis.Nil)
	}
}

func TestARedisDatabaseIsEmptyOnceItsTestHasEnded(t *testing.T) {
	var url string
	t.Run("a test that leaves a key behind", func(t *testing.T) {
		url = services.Redis(t)
		if err := openRedis(t, url).Set(t.Context(), "bell", "bourdon", 0).Err(); err != nil {
			t.Fatal(err)
		}
	})
	if url == "" {
		t.Skip("no server: the subtest was skipped")
	}
	keys, err := openRedis(t, url).DBSize(t.Context()).Result()
	if err != nil || keys != 0 {
		t.Errorf("the database holds %d keys (%v), want none", keys, err)
	}
}

func openRedis(t *testing.T, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
