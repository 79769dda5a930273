package run

import (
	"context"
	"slices"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// wholeKey completes the first digits of a key, as tables show them. If several runs
// match, the server's error lists them.
func wholeKey(ctx context.Context, l *client.Link, digits string) (string, error) {
	if _, err := schedule.ParseKey(digits); err == nil {
		return digits, nil
	}
	resp, err := client.Call(ctx, l, l.Runs().GetRun, &carillonv1.GetRunRequest{IdempotencyKey: digits})
	return resp.GetRun().GetIdempotencyKey(), err
}

// wholeKeys completes keys, and leaves out those that are named twice.
func wholeKeys(ctx context.Context, l *client.Link, digits []string) (keys []string, err error) {
	for _, d := range digits {
		key, err := wholeKey(ctx, l, d)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
