package schedule

import (
	"cmp"
	"slices"
	"time"
)

// CallCounts are executor calls by result.
type CallCounts struct {
	Since time.Time // calls before it are not counted
	Calls []CallCount
}

// CallCount is how many executor calls had one result.
type CallCount struct {
	Result    LaunchResult
	ErrorCode string // empty: accepted
	Calls     int64
	Last      time.Time // when the newest of them began; of a refused one, when it was answered
	// Of the newest.
	ScheduleID   string
	ErrorMessage string
}

// CallCountsOf makes CallCounts of a store's rows. The row without a result has the number of runs
// read and the update time of the oldest.
func CallCountsOf(rows []CallCount, since time.Time, limit int) CallCounts {
	counts := CallCounts{Since: since}
	for _, row := range rows {
		switch {
		case row.Result != "":
			counts.Calls = append(counts.Calls, row)
		case row.Calls >= int64(limit):
			counts.Since = row.Last
		}
	}
	slices.SortFunc(counts.Calls, func(a, b CallCount) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Result, b.Result), cmp.Compare(a.ErrorCode, b.ErrorCode))
	})
	return counts
}
