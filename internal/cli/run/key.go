package run

import (
	"context"

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
