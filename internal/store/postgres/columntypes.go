package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// A row can hold values that no run has, such as an infinite time. They must not end a
// whole result, and the row must move with them like any other. So a scan keeps such a
// value in openRow.bad, and COPY writes it again.

// bad are the values of a row that Run and Lease lack, by column.
type bad map[string]any

func (r *openRow) refuse(column string, kept any, shown any, why string) {
	if r.bad == nil {
		r.bad = make(bad)
	}
	r.bad[column] = kept
	r.decoding.refuse(column, shown, why)
}

// kept is the bad value of a column; nil: there is none.
func (r *openRow) kept(column string) any {
	if r.bad == nil { // nearly always
		return nil
	}
	return r.bad[column]
}

func newColumn(name string, in use, sqlType string) runColumn {
	return runColumn{name: name, in: in, sqlType: sqlType, open: name, ended: name}
}

// text is NULL if it is empty.
func text[S ~string | ~[]byte](name string, in use, of func(*openRow) *S) runColumn {
	c := newColumn(name, in, "text")
	c.target = func(r *openRow) any { return textTarget[S]{of(r)} }
	c.array = func(rows []*openRow) any {
		return column(rows, func(r **openRow) pgtype.Text { return noneOrText(*of(*r)) })
	}
	c.copy = func(to *copied, r *openRow) { to.noneOrText(noneOrText(*of(r))) }
	return c
}

// textOrEmpty is never NULL.
func textOrEmpty[S ~string](name string, in use, of func(*openRow) *S) runColumn {
	c := text(name, in, of)
	c.array = func(rows []*openRow) any {
		return column(rows, func(r **openRow) string { return string(*of(*r)) })
	}
	c.copy = func(to *copied, r *openRow) { to.text(string(*of(r))) }
	return c
}

// document is jsonb, NULL if it is empty.
func document(name string, in use, of func(*openRow) *string) runColumn {
	c := text(name, in, of)
	c.sqlType = "jsonb"
	c.copy = func(to *copied, r *openRow) { to.noneOrJSONB(*of(r)) }
	return c
}

// instant is NULL if it is zero.
func instant(name string, in use, of func(*openRow) *time.Time) runColumn {
	c := newColumn(name, in, "timestamptz")
	c.target = func(r *openRow) any { return timeTarget{of(r), r, name} }
	c.array = func(rows []*openRow) any {
		return column(rows, func(r **openRow) pgtype.Timestamptz { return noneOrTime(*of(*r)) })
	}
	c.copy = func(to *copied, r *openRow) {
		t := noneOrTime(*of(r))
		if kept, isBad := r.kept(name).(pgtype.Timestamptz); isBad && !t.Valid {
			t = kept
		}
		to.noneOrTime(t)
	}
	return c
}

func key(name string, in use, of func(*openRow) *schedule.Key) runColumn {
	c := newColumn(name, in, "bytea")
	c.target = func(r *openRow) any { return keyTarget{of(r), r, name} }
	c.array = func(rows []*openRow) any {
		return column(rows, func(r **openRow) []byte { return noneOrKey(*of(*r)) })
	}
	c.copy = func(to *copied, r *openRow) {
		if kept, isBad := r.kept(name).([]byte); isBad {
			to.bytea(kept)
			return
		}
		to.bytea(noneOrKey(*of(r)))
	}
	return c
}

// code is a word of the domain, by its number.
func code[W interface {
	~string
	Code() int16
}](name string, in use, of func(*openRow) *W, word func(int16) (W, bool)) runColumn {
	c := newColumn(name, in, "smallint")
	c.target = func(r *openRow) any { return codeTarget[W]{of(r), word, r, name} }
	c.array = func(rows []*openRow) any {
		return column(rows, func(r **openRow) pgtype.Int2 { return noneOrCode((*of(*r)).Code()) })
	}
	c.copy = func(to *copied, r *openRow) {
		n := (*of(r)).Code()
		if kept, isBad := r.kept(name).(int16); isBad && n == 0 {
			n = kept
		}
		to.int2(n)
	}
	return c
}

// codeOrNone is a code, NULL for the empty word.
func codeOrNone[W interface {
	~string
	Code() int16
}](name string, in use, of func(*openRow) *W, word func(int16) (W, bool)) runColumn {
	c := code(name, in, of, func(n int16) (W, bool) {
		if n == 0 {
			return "", true
		}
		return word(n)
	})
	required := c.copy
	c.copy = func(to *copied, r *openRow) {
		if *of(r) == "" && r.kept(name) == nil {
			to.null()
			return
		}
		required(to, r)
	}
	return c
}

// queued is a number of a run in a queue, else NULL.
func queued[N int32 | int64](name string, in use, of func(*openRow) *N) runColumn {
	var zero N
	_, wide := any(zero).(int64)
	c := newColumn(name, in, "integer")
	if wide {
		c.sqlType = "bigint"
	}
	c.target = func(r *openRow) any { return queuedTarget[N]{of(r)} }
	c.array = func(rows []*openRow) any {
		return column(rows, func(r **openRow) pgtype.Int8 { return pgtype.Int8{Int64: int64(*of(*r)), Valid: (*r).Queue.In()} })
	}
	c.copy = func(to *copied, r *openRow) {
		switch {
		case !r.Queue.In():
			to.null()
		case wide:
			to.int8(int64(*of(r)))
		default:
			to.int4(int32(*of(r)))
		}
	}
	return c
}

// int4 is a number that the domain may have in another width.
func int4[N int32 | uint32 | int64](name string, in use, of func(*openRow) *N) runColumn {
	c := newColumn(name, in, "integer")
	c.target = func(r *openRow) any { return numberTarget[N]{of(r), r, name} }
	c.array = func(rows []*openRow) any {
		return column(rows, func(r **openRow) int64 { return int64(*of(*r)) })
	}
	c.copy = func(to *copied, r *openRow) {
		if kept, isBad := r.kept(name).(int32); isBad {
			to.int4(kept)
			return
		}
		to.int4(int32(*of(r)))
	}
	return c
}

func int8(name string, in use, of func(*openRow) *int64) runColumn {
	c := newColumn(name, in, "bigint")
	c.target = func(r *openRow) any { return of(r) }
	c.array = func(rows []*openRow) any { return column(rows, func(r **openRow) int64 { return *of(*r) }) }
	c.copy = func(to *copied, r *openRow) { to.int8(*of(r)) }
	return c
}

func int2(name string, in use, of func(*openRow) *int16) runColumn {
	c := newColumn(name, in, "smallint")
	c.target = func(r *openRow) any { return of(r) }
	c.array = func(rows []*openRow) any { return column(rows, func(r **openRow) int16 { return *of(*r) }) }
	c.copy = func(to *copied, r *openRow) { to.int2(*of(r)) }
	return c
}

// nonzero is NULL if it is 0.
func nonzero(name string, in use, of func(*openRow) *int32) runColumn {
	c := newColumn(name, in, "integer")
	c.target = func(r *openRow) any { return nonzeroTarget{of(r)} }
	c.array = func(rows []*openRow) any {
		return column(rows, func(r **openRow) pgtype.Int8 { return noneOrInt(int64(*of(*r))) })
	}
	c.copy = func(to *copied, r *openRow) { to.noneOrInt4(pgtype.Int4{Int32: *of(r), Valid: *of(r) != 0}) }
	return c
}

// optional is NULL if it is nil. It is never added or moved.
func optional(name string, in use, of func(*openRow) **int32) runColumn {
	c := newColumn(name, in, "integer")
	c.target = func(r *openRow) any { return of(r) }
	c.copy = func(to *copied, r *openRow) {
		if n := *of(r); n != nil {
			to.int4(*n)
		} else {
			to.null()
		}
	}
	return c
}

// flag is NULL if it is nil. It is never added or moved.
func flag(name string, in use, of func(*openRow) **bool) runColumn {
	c := newColumn(name, in, "boolean")
	c.target = func(r *openRow) any { return of(r) }
	c.copy = func(to *copied, r *openRow) {
		if yes := *of(r); yes != nil {
			to.boolean(*yes)
		} else {
			to.null()
		}
	}
	return c
}

// yes is NULL if it is false, and false outside of queues: queue_no is scanned before it. It is never
// moved or kept in history.
func yes(name string, in use, of func(*openRow) *bool) runColumn {
	c := newColumn(name, in, "boolean")
	c.target = func(r *openRow) any { return yesTarget{of(r), &r.Queue} }
	c.array = func(rows []*openRow) any {
		return column(rows, func(r **openRow) pgtype.Bool { return pgtype.Bool{Bool: true, Valid: *of(*r)} })
	}
	c.copy = func(to *copied, r *openRow) {
		if *of(r) {
			to.boolean(true)
		} else {
			to.null()
		}
	}
	return c
}

// computed follows from the rest of the row. It is never scanned.
func computed[V any](name string, in use, sqlType string, of func(*openRow) V, copy func(*copied, V)) runColumn {
	c := newColumn(name, in, sqlType)
	c.array = func(rows []*openRow) any { return column(rows, func(r **openRow) V { return of(*r) }) }
	c.copy = func(to *copied, r *openRow) { copy(to, of(r)) }
	return c
}

// The targets of scans.
type (
	textTarget[S ~string | ~[]byte] struct{ to *S }
	nonzeroTarget                   struct{ to *int32 }
	yesTarget                       struct {
		to *bool
		in *schedule.QueuePlace
	}
	queuedTarget[N int32 | int64] struct{ to *N }
	timeTarget                    struct {
		to     *time.Time
		row    *openRow
		column string
	}
	keyTarget struct {
		to     *schedule.Key
		row    *openRow
		column string
	}
	codeTarget[W ~string] struct {
		to     *W
		word   func(int16) (W, bool)
		row    *openRow
		column string
	}
	numberTarget[N int32 | uint32 | int64] struct {
		to     *N
		row    *openRow
		column string
	}
)

// ScanText reads a text.
func (t textTarget[S]) ScanText(v pgtype.Text) error {
	*t.to = S(v.String)
	if !v.Valid {
		var none S
		*t.to = none
	}
	return nil
}

// ScanBool reads whether it is so.
func (t yesTarget) ScanBool(v pgtype.Bool) error {
	*t.to = v.Bool && t.in.In()
	return nil
}

// ScanInt64 reads a number.
func (t nonzeroTarget) ScanInt64(v pgtype.Int8) error {
	*t.to = int32(v.Int64)
	return nil
}

// ScanInt64 reads a number.
func (t queuedTarget[N]) ScanInt64(v pgtype.Int8) error {
	*t.to = N(v.Int64)
	return nil
}

// ScanTimestamptz reads a time.
func (t timeTarget) ScanTimestamptz(v pgtype.Timestamptz) error {
	*t.to = time.Time{}
	switch {
	case !v.Valid:
	case v.InfinityModifier != pgtype.Finite:
		t.row.refuse(t.column, v, v.InfinityModifier.String(), "which is no instant")
	default:
		*t.to = v.Time.UTC()
	}
	return nil
}

// ScanBytes reads a key.
func (t keyTarget) ScanBytes(v []byte) error {
	*t.to = schedule.Key{}
	if len(v) != 0 && copy(t.to[:], v) != len(t.to) || len(v) > len(t.to) {
		t.row.refuse(t.column, append([]byte{}, v...), len(v), "bytes where a key has 32")
	}
	return nil
}

// ScanInt64 reads a code.
func (t codeTarget[W]) ScanInt64(v pgtype.Int8) error {
	var known bool
	if *t.to, known = t.word(int16(v.Int64)); !known {
		t.row.refuse(t.column, int16(v.Int64), v.Int64, "which is no code")
	}
	return nil
}

// ScanInt64 reads a number.
func (t numberTarget[N]) ScanInt64(v pgtype.Int8) error {
	*t.to = N(v.Int64)
	if int64(*t.to) != v.Int64 {
		*t.to = 0
		t.row.refuse(t.column, int32(v.Int64), v.Int64, "outside 0 to 4294967295")
	}
	return nil
}
