package client

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/command"
)

// DefaultLimit is the number of entries of a list without --limit.
const DefaultLimit = 50

// LimitFlag adds --limit.
func LimitFlag(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVar(limit, "limit", *limit, "at most this `NUMBER`; 0 = all")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if *limit < 0 {
			return command.Usage(cmd, "--limit %d is negative; 0 = all", *limit)
		}
		return nil
	}
}

// Pages follows next_page_token until limit entries are read; 0 = all. next is the
// token after the last one. A page may be short: only an empty token is the end.
func Pages[E any](limit int, fetch func(size uint32, token string) (page []E, next string, err error)) (all []E, next string, err error) {
	const most = 200
	for {
		size := most
		if limit > 0 {
			size = min(limit-len(all), most)
		}
		page, token, err := fetch(uint32(size), next)
		if err != nil {
			return nil, "", err
		}
		if token != "" && token == next {
			return nil, "", errors.New("the server answers every page with the same next_page_token; ask for fewer with --limit")
		}
		all, next = append(all, page...), token
		if next == "" || (limit > 0 && len(all) >= limit) {
			return all, next, nil
		}
	}
}
