package services

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// leaseLimit ends the lease of a test that was killed.
const leaseLimit = time.Hour

// Redis finds an empty database for this test alone and returns its URL. The
// database is emptied when the test ends.
//
// Databases of one Redis are only numbers, so the test takes a lease on one,
// which is kept in database 0. A database that holds anything is left alone.
func Redis(t testing.TB) string {
	t.Helper()
	server := serverURL(t, "TEST_REDIS_URL")
	options, err := redis.ParseURL(server)
	if err != nil {
		// Not %v: the parser may repeat the URL, and with it the password.
		t.Fatal("TEST_REDIS_URL is not a Redis URL; it must look like redis://:password@127.0.0.1:6379/0")
	}
	options.DB = 0
	leases := redis.NewClient(options)
	t.Cleanup(func() { _ = leases.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()

	number, err := leaseDatabase(ctx, leases, t.Name())
	if err != nil {
		t.Fatalf("find a Redis database for this test: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		if err := releaseDatabase(ctx, leases, number); err != nil {
			t.Errorf("empty the Redis database of this test: %v", err)
		}
	})
	return withNumber(t, server, number)
}

func leaseName(number int) string { return fmt.Sprintf("carillon:test:database:%d", number) }

// leaseDatabase takes the first database that no test has and that is empty.
func leaseDatabase(ctx context.Context, leases *redis.Client, test string) (int, error) {
	count, err := databaseCount(ctx, leases)
	if err != nil {
		return 0, err
	}
	for number := 1; number < count; number++ {
		owner := fmt.Sprintf("%s of process %d", test, os.Getpid())
		taken, err := leases.SetNX(ctx, leaseName(number), owner, leaseLimit).Result()
		if err != nil {
			return 0, fmt.Errorf("lease database %d: %w", number, err)
		}
		if !taken {
			continue
		}
		keys, err := keysIn(ctx, leases, number)
		if err != nil {
			return 0, err
		}
		if keys == 0 {
			return number, nil
		}
		// Someone else's: keep the lease, so that the next test need not look.
	}
	return 0, fmt.Errorf("all %d databases are taken or not empty; start Redis with more (--databases)", count-1)
}

func databaseCount(ctx context.Context, leases *redis.Client) (int, error) {
	answer, err := leases.ConfigGet(ctx, "databases").Result()
	if err != nil {
		return 0, fmt.Errorf("ask for the number of databases: %w", err)
	}
	count, err := strconv.Atoi(answer["databases"])
	if err != nil {
		return 0, fmt.Errorf("read the number of databases: %w", err)
	}
	return count, nil
}

// onDatabase runs commands on another database than 0.
func onDatabase(leases *redis.Client, number int, commands func(*redis.Client) error) error {
	options := *leases.Options()
	options.DB = number
	client := redis.NewClient(&options)
	defer client.Close()
	return commands(client)
}

func keysIn(ctx context.Context, leases *redis.Client, number int) (keys int64, err error) {
	err = onDatabase(leases, number, func(client *redis.Client) error {
		keys, err = client.DBSize(ctx).Result()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("count the keys of database %d: %w", number, err)
	}
	return keys, nil
}

// releaseDatabase empties the database before it gives the lease back.
func releaseDatabase(ctx context.Context, leases *redis.Client, number int) error {
	err := onDatabase(leases, number, func(client *redis.Client) error {
		return client.FlushDB(ctx).Err()
	})
	if err != nil {
		return fmt.Errorf("empty database %d: %w", number, err)
	}
	if err := leases.Del(ctx, leaseName(number)).Err(); err != nil {
		return fmt.Errorf("give back database %d: %w", number, err)
	}
	return nil
}

func withNumber(t testing.TB, server string, number int) string {
	t.Helper()
	parsed, err := url.Parse(server)
	if err != nil {
		t.Fatal("TEST_REDIS_URL is not a URL; it must look like redis://:password@127.0.0.1:6379/0")
	}
	parsed.Path = "/" + strconv.Itoa(number)
	return parsed.String()
}
