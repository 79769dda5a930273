package schedule

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"
)

// UniqueScope says how long a run of a queue holds its unique key.
type UniqueScope string

// The scopes.
const (
	UniqueWaiting UniqueScope = "waiting" // until its queue admits it
	UniqueOpen    UniqueScope = "open"    // until it and its automatic retries are over
	UniquePeriod  UniqueScope = "period"  // for a time from the entry on
)

// UniqueScopes is the closed set.
var UniqueScopes = []UniqueScope{UniqueWaiting, UniqueOpen, UniquePeriod}

// OnDuplicate is the answer to an entry under a key that another run holds.
type OnDuplicate string

// The answers to a duplicate.
const (
	DuplicateReturn  OnDuplicate = "return"  // the answer is the other run
	DuplicateReplace OnDuplicate = "replace" // the same, and the other run gets input, priority and start of the entry
	DuplicateRefuse  OnDuplicate = "refuse"  // ErrExists
)

// OnDuplicates is the closed set.
var OnDuplicates = []OnDuplicate{DuplicateReturn, DuplicateReplace, DuplicateRefuse}

// Unique asks for one run per key: no other run of the owner with this key is in the queue. It is
// checked when a client puts a run into the queue, and never again.
type Unique struct {
	Key         string
	Scope       UniqueScope
	PeriodMS    uint32 // of UniquePeriod
	OnDuplicate OnDuplicate
	Debounce    *Debounce
}

// Debounce delays a run until its entries have stopped for QuietMS, and not longer than MaxMS after
// the first one.
type Debounce struct{ QuietMS, MaxMS uint32 }

// The bounds of Unique and Debounce.
const (
	MaxUniqueKey     = 200 // characters
	MaxUniquePeriod  = 30 * 24 * time.Hour
	MinDebounceQuiet = 100 * time.Millisecond
	MaxDebounceQuiet = time.Hour
	MaxDebounce      = 24 * time.Hour
	// UniqueKeyHint says what a key is made of.
	UniqueKeyHint = "use 1 to 200 printable characters without spaces at the ends, and a hash of longer keys"
	// debounceMax is the default of MaxMS, in quiet times.
	debounceMax = 10
)

// Resolved is u with every default.
func (u Unique) Resolved() *Unique {
	if u.Scope == "" {
		u.Scope = UniqueOpen
	}
	if u.OnDuplicate == "" {
		u.OnDuplicate = DuplicateReturn
	}
	if u.Debounce != nil && u.Debounce.MaxMS == 0 {
		u.Debounce = &Debounce{u.Debounce.QuietMS, u.Debounce.QuietMS * debounceMax}
	}
	return &u
}

func (u *Unique) period() time.Duration { return time.Duration(u.PeriodMS) * time.Millisecond }

// Quiet is how long a run waits for another entry.
func (d *Debounce) Quiet() time.Duration { return time.Duration(d.QuietMS) * time.Millisecond }

// Max is how long it waits in all.
func (d *Debounce) Max() time.Duration { return time.Duration(d.MaxMS) * time.Millisecond }

// Check adds what is wrong with a resolved u.
func (u *Unique) Check(c *Collect, field string) {
	switch {
	case u.Key == "":
		c.Note(field+".key", "is required", "name what there is to be one run of")
	case !Printable(u.Key, MaxUniqueKey):
		c.Add(field+".key", u.Key, "is not a valid key", UniqueKeyHint)
	}
	if !slices.Contains(UniqueScopes, u.Scope) {
		c.Add(field+".scope", u.Scope, "is not waiting, open or period", "")
	}
	if !slices.Contains(OnDuplicates, u.OnDuplicate) {
		c.Add(field+".on_duplicate", u.OnDuplicate, "is not return, replace or refuse", "")
	}
	switch {
	case u.Scope == UniquePeriod && u.PeriodMS == 0:
		c.Note(field+".period_ms", "is required with scope period", "say how long the key is held, from the first entry on")
	case u.Scope != UniquePeriod && u.PeriodMS != 0:
		c.Add(field+".period_ms", u.PeriodMS, "is for scope period", "leave it out, or use the scope period")
	case u.period() > MaxUniquePeriod:
		c.Add(field+".period_ms", u.PeriodMS, "is over "+Milliseconds(MaxUniquePeriod), "")
	}
	if u.Debounce == nil {
		return
	}
	if u.OnDuplicate != DuplicateReplace {
		c.Note(field+".debounce", "needs on_duplicate replace", "each entry replaces the run that waits")
	}
	u.Debounce.Check(c, field+".debounce")
}

// Check adds what is wrong with d.
func (d *Debounce) Check(c *Collect, field string) {
	if d.Quiet() < MinDebounceQuiet || d.Quiet() > MaxDebounceQuiet {
		c.Add(field+".quiet_ms", d.QuietMS, fmt.Sprintf("is not within %s to %s", Milliseconds(MinDebounceQuiet), Milliseconds(MaxDebounceQuiet)), "")
	}
	switch {
	case d.Max() > MaxDebounce:
		c.Add(field+".max_ms", d.MaxMS, "is over "+Milliseconds(MaxDebounce), "")
	case d.MaxMS < d.QuietMS:
		c.Add(field+".max_ms", d.MaxMS, "is below quiet_ms, which is "+Milliseconds(d.Quiet()), "")
	}
}

// UniqueHash names a unique key in the tables. Owners of a shared queue have their own keys.
func UniqueHash(queueID, userID, key string) Key {
	return sha256.Sum256([]byte(queueID + "\x00" + userID + "\x00" + key)) // no key has a control character
}

// UniqueHold is a unique key with the run that holds it.
type UniqueHold struct {
	QueueNo  int32
	Hash     Key // see UniqueHash
	UserID   string
	Key      string
	RunKey   Key
	Scope    UniqueScope
	FirstAt  time.Time // when the first run under the key entered
	Until    time.Time // of UniquePeriod: the key is free from then on
	Replaced int32     // how often an entry has replaced the run
	FireBy   time.Time // debounced: it starts then at the latest; zero: it is not
}

// UniqueFact is a key as a transaction finds it, with the run that holds it, locked; nil: that is
// over.
type UniqueFact struct {
	UniqueHold
	Run *Run
}

// Marks say which runs of a request are new, a character for each; "": all are new runs.
type Marks string

// The marks.
const (
	MarkNew       = '.'
	MarkDuplicate = 'd' // the run of the answer was there already
	MarkReplaced  = 'r' // and has the input, priority and start of the request now
)

// Duplicate reports whether the i-th run was there already.
func (m Marks) Duplicate(i int) bool { return i < len(m) && m[i] != MarkNew }

// Replaced reports whether the i-th run was there already and was replaced.
func (m Marks) Replaced(i int) bool { return i < len(m) && m[i] == MarkReplaced }
