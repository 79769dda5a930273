package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// instant, text, number, flag, key and raw scan a column; NULL is their zero
// value. micros, word, keyArg and rawArg write one; "none" is NULL. arg
// is what a field of a run is bound as.
type (
	instant struct{ time.Time }
	text    string
	// textOrEmpty is never written as NULL.
	textOrEmpty string
	number      int64
	flag        bool
	key         schedule.Key
	raw         json.RawMessage
)

var errColumn = errors.New("column of another type")

func (i *instant) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		i.Time = time.Time{}
	case int64:
		i.Time = time.UnixMicro(v).UTC()
	default:
		return errColumn
	}
	return nil
}

func (t *text) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*t = ""
	case string:
		*t = text(v)
	default:
		return errColumn
	}
	return nil
}

func (t *text) arg() any { return word(*t) }

func (t *textOrEmpty) Scan(v any) error { return (*text)(t).Scan(v) }
func (t *textOrEmpty) arg() any         { return string(*t) }

func (n *number) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*n = 0
	case int64:
		*n = number(v)
	default:
		return errColumn
	}
	return nil
}

func (f *flag) Scan(v any) error {
	var n number
	err := n.Scan(v)
	*f = n != 0
	return err
}

func (k *key) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*k = key{}
	case []byte:
		if len(v) != len(k) {
			return fmt.Errorf("a key of %d bytes, want %d", len(v), len(k))
		}
		copy(k[:], v)
	default:
		return errColumn
	}
	return nil
}

func (k *key) arg() any { return keyArg(schedule.Key(*k)) }

func (r *raw) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*r = nil
	case string:
		*r = raw(v)
	default:
		return errColumn
	}
	return nil
}

func (r *raw) arg() any { return rawArg(json.RawMessage(*r)) }

// moment, integer, nonzero and optional are fields of a run, scanned and bound.
type (
	moment                            struct{ at *time.Time } // NULL: zero
	integer[N int32 | uint32 | int64] struct{ n *N }          // NULL: 0, but 0 is no NULL
	nonzero[N int32 | int64]          struct{ n *N }          // NULL: 0
	yes                               struct {                // NULL: false, and false is NULL; false outside of queues: queue_no is scanned before it
		is *bool
		in *schedule.QueuePlace
	}
	optional                struct{ n **int32 }  // NULL: nil
	optionalFlag            struct{ yes **bool } // NULL: nil
	queued[N int32 | int64] struct {             // NULL outside of queues
		n  *N
		in *schedule.QueuePlace
	}
)

func (m moment) Scan(v any) error {
	var i instant
	err := i.Scan(v)
	*m.at = i.Time
	return err
}

func (m moment) arg() any { return micros(*m.at) }

func (i integer[N]) Scan(v any) error {
	var n number
	err := n.Scan(v)
	*i.n = N(n)
	return err
}

func (i integer[N]) arg() any { return int64(*i.n) }

func (c nonzero[N]) Scan(v any) error { return integer[N](c).Scan(v) }

func (c nonzero[N]) arg() any { return count(*c.n) }

func (q queued[N]) Scan(v any) error { return integer[N]{q.n}.Scan(v) }

func (q queued[N]) arg() any {
	if !q.in.In() {
		return nil
	}
	return int64(*q.n)
}

func (y yes) Scan(v any) error {
	err := (*flag)(y.is).Scan(v)
	*y.is = *y.is && y.in.In()
	return err
}

func (y yes) arg() any {
	if !*y.is {
		return nil
	}
	return true
}

func (o optional) Scan(v any) error {
	*o.n = nil
	if v == nil {
		return nil
	}
	n := new(int32)
	*o.n = n
	return integer[int32]{n}.Scan(v)
}

func (o optional) arg() any {
	if *o.n == nil {
		return nil
	}
	return int64(**o.n)
}

// status, trigger, policy, queueState and admittance scan a number, as the tables of runs have it, or a
// word, as the view has it. The number is bound.
type (
	status  schedule.Status
	trigger schedule.Trigger
	policy  schedule.OverlapPolicy

	queueState schedule.QueueState
	admittance schedule.Admittance
)

func (s *status) Scan(v any) error { return scanCode(v, s, schedule.StatusOf) }

func (t *trigger) Scan(v any) error { return scanCode(v, t, schedule.TriggerOf) }

func (p *policy) Scan(v any) error { return scanCode(v, p, schedule.OverlapPolicyOf) }

func (q *queueState) Scan(v any) error { return scanCode(v, q, schedule.QueueStateOf) }

func (a *admittance) Scan(v any) error { return scanCode(v, a, schedule.AdmittanceOf) }

func (s *status) arg() any { return count(schedule.Status(*s).Code()) }

func (t *trigger) arg() any { return count(schedule.Trigger(*t).Code()) }

func (p *policy) arg() any { return count(schedule.OverlapPolicy(*p).Code()) }

func (q *queueState) arg() any { return count(schedule.QueueState(*q).Code()) }

func (a *admittance) arg() any { return count(schedule.Admittance(*a).Code()) }

func scanCode[C, W ~string](v any, to *C, word func(int16) (W, bool)) error {
	switch v := v.(type) {
	case nil:
		*to = ""
	case string:
		*to = C(v)
	case int64:
		w, _ := word(int16(v)) // a number that this binary does not know is no word, and stops no other row
		*to = C(w)
	default:
		return errColumn
	}
	return nil
}

func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func word[T ~string](s T) any {
	if s == "" {
		return nil
	}
	return string(s)
}

func count[T ~int16 | ~int32 | ~uint32 | ~int64 | ~int](n T) any {
	if n == 0 {
		return nil
	}
	return int64(n)
}

func keyArg(k schedule.Key) any {
	if k.IsZero() {
		return nil
	}
	return k[:]
}

func rawArg(j json.RawMessage) any {
	if len(j) == 0 {
		return nil
	}
	return string(j)
}

// list is a JSON array to bind as one argument and open with json_each.
func list[T ~string | ~[2]string](words []T) string {
	if words == nil {
		return "[]"
	}
	out, err := json.Marshal(words)
	if err != nil { // strings always marshal
		panic(err)
	}
	return string(out)
}

// jsonArg is list for rows of several values.
func jsonArg(rows any) string {
	out, err := json.Marshal(rows)
	if err != nil { // words and numbers always marshal
		panic(err)
	}
	return string(out)
}

// keyList is list for keys, in hex: JSON has no bytes. unhex reads them back.
func keyList(keys []schedule.Key) string {
	out := make([]byte, 0, len(keys)*67+2)
	out = append(out, '[')
	for i, k := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, k.String()...)
		out = append(out, '"')
	}
	return string(append(out, ']'))
}

// ceilMicros rounds up: a bound between two microseconds leaves out the lower.
func ceilMicros(t time.Time) int64 { return t.Add(time.Microsecond - 1).UnixMicro() }

// instants is list for times.
func instants(times []time.Time) string {
	out := append(make([]byte, 0, len(times)*17+2), '[')
	for i, at := range times {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, at.UnixMicro(), 10)
	}
	return string(append(out, ']'))
}

// Scan reads a flag.
func (o optionalFlag) Scan(v any) error {
	*o.yes = nil
	if v == nil {
		return nil
	}
	var f flag
	err := f.Scan(v)
	yes := bool(f)
	*o.yes = &yes
	return err
}

func (o optionalFlag) arg() any {
	if *o.yes == nil {
		return nil
	}
	return **o.yes
}
