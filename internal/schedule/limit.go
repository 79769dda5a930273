package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of limits.
const (
	// MaxLimitsOfRun bounds the limits of one run: its queue's and its own.
	MaxLimitsOfRun = 4
	// AllQueuesLimit is the limit of the operator that QUEUES_MAX_IN_FLIGHT makes. Runs of all queues
	// use it besides their own limits.
	AllQueuesLimit = "all-queues"
	// MaxRatePeriod bounds per_ms of a rate.
	MaxRatePeriod = 24 * time.Hour
	// MaxRateStarts bounds starts of a rate.
	MaxRateStarts = 1_000_000
)

// LimitRef names a limit, or one key of a keyed limit. Its text is "gpu" or "customer=a7".
type LimitRef struct {
	ID  string
	Key string // "" of a limit without keys
}

// String is the text of a reference.
func (r LimitRef) String() string {
	if r.Key == "" {
		return r.ID
	}
	return r.ID + "=" + r.Key
}

// ParseLimitRef reads the text of a reference. ok = false: it names no limit.
func ParseLimitRef(text string) (r LimitRef, ok bool) {
	id, key, keyed := strings.Cut(text, "=")
	return LimitRef{ID: id, Key: key}, ValidID(id) && (!keyed || ValidLimitKey(key))
}

// LimitKeyHint says what a key of a limit is.
const LimitKeyHint = "use 1 to 128 of A–Z a–z 0–9 . _ : - @ / +"

// ValidLimitKey reports whether a text can be the key of a limit: 1–128 characters of an id, or
// @ / +.
func ValidLimitKey(key string) bool {
	return ValidID(strings.Map(func(c rune) rune {
		if c == '@' || c == '/' || c == '+' {
			return '-'
		}
		return c
	}, key))
}

// Limits are references to limits, sorted, as one text with commas between them. "" for none.
type Limits string

// Refs are the references of the limits.
func (l Limits) Refs() []LimitRef {
	if l == "" {
		return nil
	}
	var refs []LimitRef
	for text := range strings.SplitSeq(string(l), ",") {
		if ref, ok := ParseLimitRef(text); ok {
			refs = append(refs, ref)
		}
	}
	return refs
}

// Texts are the texts of the references.
func (l Limits) Texts() []string {
	if l == "" {
		return nil
	}
	return strings.Split(string(l), ",")
}

// Name is whether a reference among the limits is to this limit.
func (l Limits) Name(limitID string) bool {
	return slices.ContainsFunc(l.Refs(), func(ref LimitRef) bool { return ref.ID == limitID })
}

// Has is whether a reference is among the limits.
func (l Limits) Has(ref LimitRef) bool { return slices.Contains(l.Refs(), ref) }

// With are the limits and one more, unless they have it.
func (l Limits) With(ref LimitRef) Limits {
	return JoinLimits(l.Texts(), []string{ref.String()})
}

// CheckLimitRefs adds what is wrong with the references in a field.
func CheckLimitRefs(c *Collect, field string, texts []string) {
	if len(texts) > MaxLimitsOfRun {
		c.Note(field, fmt.Sprintf("has %d limits, not 0 to %d", len(texts), MaxLimitsOfRun), "")
		return
	}
	for i, text := range texts {
		if _, ok := ParseLimitRef(text); !ok {
			c.Add(fmt.Sprintf("%s[%d]", field, i), text, "is not the id of a limit, or id=key of a keyed one", "ids have 1–128 characters of A–Z a–z 0–9 . _ : -, keys also @ / +")
		}
	}
}

// MergeLimits returns the limits of a run from valid references: those of its queue and its own.
// The error says that they are too many, or that two keys of one limit are named.
func MergeLimits(lists ...[]string) (Limits, error) {
	all := slices.Concat(lists...)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > MaxLimitsOfRun {
		return "", fmt.Errorf("makes %d limits of a run with those of its queue, not 0 to %d", len(all), MaxLimitsOfRun)
	}
	keys := make(map[string]string, len(all))
	for _, text := range all {
		ref, _ := ParseLimitRef(text)
		if key, named := keys[ref.ID]; named {
			return "", fmt.Errorf("names two keys of limit %s: %s and %s", ref.ID, Quote(key), Quote(ref.Key))
		}
		keys[ref.ID] = ref.Key
	}
	return JoinLimits(all), nil
}

// JoinLimits is MergeLimits where nothing is refused: the limits of the queue may have changed
// since a schedule named its own.
func JoinLimits(lists ...[]string) Limits {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return Limits(strings.Join(slices.Compact(all), ","))
}

// RateDefinition allows Starts starts in PerMS milliseconds, evenly spaced, and up to Burst of
// them at once. The zero value allows any number.
type RateDefinition struct {
	Starts uint32 `json:"starts"`
	PerMS  uint32 `json:"per_ms"`
	Burst  uint32 `json:"burst"`
}

// Set reports whether there is a rate.
func (r RateDefinition) Set() bool { return r != RateDefinition{} }

// Resolved fills in the default of Burst.
func (r RateDefinition) Resolved() RateDefinition {
	if r.Set() && r.Burst == 0 {
		r.Burst = 1
	}
	return r
}

// Check adds what is wrong with a resolved rate. field names it.
func (r RateDefinition) Check(c *Collect, field string) {
	if !r.Set() {
		return
	}
	if r.Starts < 1 || r.Starts > MaxRateStarts {
		c.Add(field+".starts", r.Starts, fmt.Sprintf("is not within 1 to %d", MaxRateStarts), "to stop starts, pause the queue, or set max_in_flight of a key to 0")
	}
	if per := millis(r.PerMS); per <= 0 || per > MaxRatePeriod {
		c.Add(field+".per_ms", r.PerMS, "is not within 1 to "+Milliseconds(MaxRatePeriod), "")
	}
	if r.Burst > r.Starts && r.Starts > 0 {
		c.Add(field+".burst", r.Burst, fmt.Sprintf("is over starts (%d)", r.Starts), "1 spaces starts evenly")
	}
}

// LimitDefinition is what a user says about a limit, with every default resolved.
type LimitDefinition struct {
	LimitID string
	UserID  string // the owner
	Shared  bool   // runs of other owners may use it
	Keyed   bool   // it counts for each key
	// Ordered: the runs of a key go one after the other, each with all its attempts. A run that is
	// tried again keeps the key until then.
	Ordered     bool
	MaxInFlight uint32 // runs that use it at the same time; 0: any number
	Rate        RateDefinition
	Note        string
}

// Check adds what is wrong with a resolved definition, its owner and note aside.
func (d *LimitDefinition) Check(c *Collect) {
	if !ValidID(d.LimitID) {
		c.Add("limit_id", d.LimitID, "must be 1–128 characters of A–Z a–z 0–9 . _ : -", "")
	}
	if d.MaxInFlight > MaxInFlightLimit {
		c.Add("max_in_flight", d.MaxInFlight, fmt.Sprintf("is not within 1 to %d", MaxInFlightLimit), "leave it out for any number")
	}
	d.Rate.Check(c, "rate")
	if d.Ordered && !d.Keyed {
		c.Add("ordered", d.Ordered, "needs a limit that counts for each key", "set keyed too; for one sequence of all runs name the limit with one key")
	}
	if d.Ordered && d.MaxInFlight != 1 {
		c.Add("max_in_flight", d.MaxInFlight, "is not 1, as ordered needs it", "leave it out: the runs of a key go one after the other")
	}
	if d.MaxInFlight == 0 && !d.Rate.Set() {
		c.Note("max_in_flight", "is required, or rate", "a limit bounds the runs in flight, or the starts per time, or both")
	}
}

// Limit bounds the runs of all queues that name it.
type Limit struct {
	No int32 // given by the store, never used again
	LimitDefinition
	Revision  int64 // of the definition, from 1
	CreatedAt time.Time
	UpdatedAt time.Time
	Used      int // runs in flight that use it, when it was read; never written
}

// LimitKey has the numbers of one key of a keyed limit.
type LimitKey struct {
	Key         string
	MaxInFlight *uint32        // 0: no run of the key starts; nil: that of the limit
	Rate        RateDefinition // not set: that of the limit
	Note        string
	Until       time.Time // the numbers hold before it; zero: until they are changed
}

// Holds reports whether the numbers are in force.
func (k *LimitKey) Holds(now time.Time) bool {
	return k != nil && (k.Until.IsZero() || now.Before(k.Until))
}

// Same reports whether two keys have the same numbers, note and end.
func (k *LimitKey) Same(o *LimitKey) bool {
	most, other := k.MaxInFlight, o.MaxInFlight
	return k.Key == o.Key && (most == nil) == (other == nil) && (most == nil || *most == *other) && k.Rate == o.Rate && k.Note == o.Note && k.Until.Equal(o.Until)
}

// NumbersOf are the bounds of a key of a limit: max_in_flight, with limited = false for any
// number, and the rate.
func (l *Limit) NumbersOf(k *LimitKey, now time.Time) (maxInFlight int, limited bool, rate RateDefinition) {
	maxInFlight, limited, rate = int(l.MaxInFlight), l.MaxInFlight > 0, l.Rate
	if !k.Holds(now) {
		return maxInFlight, limited, rate
	}
	if k.MaxInFlight != nil {
		maxInFlight, limited = int(*k.MaxInFlight), true
	}
	if k.Rate.Set() {
		rate = k.Rate
	}
	return maxInFlight, limited, rate
}

// LimitFacts is what a change of a limit is decided by.
type LimitFacts struct {
	Limit *Limit        // nil: there is none
	Keys  LimitKeyFacts // that have their own numbers
	Over  LimitKeyFacts // those of them with a max_in_flight over 1
	// MostUsed are the uses of the key that has most of them.
	MostUsed int
}

// LimitKeyFacts are keys that have their own numbers.
type LimitKeyFacts struct {
	Count int
	End   time.Time // when the last of these numbers end; zero: those of one have no end, or there is none
}

// Hold reports whether the numbers of a key hold at an instant.
func (f *LimitKeyFacts) Hold(now time.Time) bool {
	return f.Count > 0 && (f.End.IsZero() || f.End.After(now))
}

// LimitChange is what a request makes of a limit, in one transaction.
type LimitChange struct {
	After   *Limit    // the limit is written; nil: it stays
	Delete  bool      // the limit goes, with the numbers of its keys
	Key     *LimitKey // numbers of one key are written
	DropKey string    // numbers of one key go; "": none do
	Now     time.Time // of the change: numbers of keys that have ended by then go, too
	Audit   *AuditEntry
}

// Empty reports whether nothing changes.
func (c *LimitChange) Empty() bool {
	return c.After == nil && !c.Delete && c.Key == nil && c.DropKey == ""
}

// LimitFilter selects limits.
type LimitFilter struct {
	UserID string // of this owner, or shared; "": all
	After  string // limit ids above it
	Limit  int    // of a page; 0: DefaultPageSize
}

// LimitUse is a run in flight that uses a limit.
type LimitUse struct {
	Key    string // of the limit; "" without keys
	UsedBy Key    // of the run
}

// LimitCount is how many runs in flight use a key of a limit.
type LimitCount struct {
	Key  string // "" of a limit without keys
	Used int
}

// LimitedSchedule is a schedule that names limits.
type LimitedSchedule struct {
	ScheduleID string
	UserID     string
	Limits     Limits
}
