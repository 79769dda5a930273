package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	wholeKeyDigits = 64
	fewestDigits   = 8
	// keysSearched bounds the search for a key's beginning.
	keysSearched = 1000
)

// wholeKey completes the beginning of a key, as tables show it, from the newest
// runs and the planned ones.
func wholeKey(ctx context.Context, l *link, beginning string) (string, error) {
	switch {
	case len(beginning) >= wholeKeyDigits || strings.Trim(beginning, "0123456789abcdef") != "":
		return beginning, nil // whole, or for the server to refuse
	case len(beginning) < fewestDigits:
		return "", fmt.Errorf("the key %q has %d digits; give all %d, or at least the first %d", beginning, len(beginning), wholeKeyDigits, fewestDigits)
	}
	found := make(map[string]bool)
	for _, status := range [][]string{nil, {string(schedule.StatusPlanned)}} { // what is planned comes only when asked for
		keys, _, err := pages(keysSearched, func(size uint32, token string) ([]string, string, error) {
			resp, err := call(ctx, l, runs(l).ListRuns, &carillonv1.ListRunsRequest{Status: status, PageSize: size, PageToken: token})
			keys := make([]string, len(resp.GetRuns()))
			for i, r := range resp.GetRuns() {
				keys[i] = r.GetIdempotencyKey()
			}
			return keys, resp.GetNextPageToken(), err
		})
		if err != nil {
			return "", err
		}
		for _, key := range keys {
			if strings.HasPrefix(key, beginning) {
				found[key] = true
			}
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("%d runs have a key that begins with %s; give more digits", len(found), beginning)
	}
	for key := range found {
		return key, nil
	}
	return "", &callError{code: codes.NotFound, err: fmt.Errorf(
		"none of the newest %d runs has a key that begins with %s; give all %d digits", keysSearched, beginning, wholeKeyDigits)}
}
