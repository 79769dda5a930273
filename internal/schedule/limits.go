package schedule

import "time"

// Limits on what users may send. Each has boundary tests; docs/semantics.md
// lists them.
const (
	MaxIDLength        = 128
	MaxInputBytes      = 64 << 10
	MaxJSONDepth       = 32
	MaxDAGBytes        = 1 << 20
	MaxApplyBytes      = 8 << 20 // of one ApplySchedules
	MaxApplied         = 5000    // schedules of one ApplySchedules
	MaxJitter          = time.Hour
	MaxCatchupWindow   = 30 * 24 * time.Hour
	MaxRunTimeout      = 30 * 24 * time.Hour
	MaxLaunchTimeout   = 24 * time.Hour // as LAUNCH_RETRY_FOR_MS
	MaxQueuedLimit     = 1000
	MaxLabels          = 64
	MaxNoteLength      = 1024
	MaxPriority        = 1000
	MaxPageSize        = 200
	MaxExpectWithin    = 14 * 24 * time.Hour // of start and finish: well inside the least retention
	MaxSuccessEvery    = 45 * 24 * time.Hour // of success: for what runs once a month
	MinExpectation     = time.Second
	MaxAlertAfter      = 1000
	MinRemindEvery     = 5 * time.Minute
	DefaultPageSize    = 50
	DefaultMaxQueued   = 100
	DefaultCatchupSpan = 24 * time.Hour
	DefaultRunTimeout  = time.Hour
)

// PageSize is the number of rows of a page; none asked for is DefaultPageSize.
func PageSize(limit int) int {
	if limit <= 0 {
		return DefaultPageSize
	}
	return limit
}

// MaxLookahead is the maximum of LOOKAHEAD_MS: no worker plans a slot further ahead than that plus
// its jitter.
const MaxLookahead = 10 * time.Minute

// MinTime and MaxTime bound every instant that a definition may name.
var (
	MinTime = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	MaxTime = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

// IDHint says what an id is.
const IDHint = "use 1 to 128 of A–Z a–z 0–9 . _ : -"

// ValidID reports whether s is 1–128 of A–Z a–z 0–9 . _ : -
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > MaxIDLength {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}
