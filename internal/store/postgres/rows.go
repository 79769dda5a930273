package postgres

import (
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// decoding converts columns to the domain's values and keeps the first error. Rows are
// scanned into types that hold each possible value of the column, because one bad row
// must not end the whole result.
type decoding struct{ err error }

func (d *decoding) refuse(column string, value any, why string) {
	if d.err == nil {
		d.err = fmt.Errorf("column %s holds %s, %s", column, schedule.Quote(value), why)
	}
}

func (d *decoding) time(column string, v pgtype.Timestamptz) time.Time {
	switch {
	case !v.Valid:
		return time.Time{}
	case v.InfinityModifier != pgtype.Finite:
		d.refuse(column, v.InfinityModifier.String(), "which is no instant")
		return time.Time{}
	}
	return v.Time.UTC()
}

// wordOrCode is a status, trigger or policy: some statements have a word, the tables a code.
type wordOrCode struct {
	word string
	code int64
}

// ScanText reads a word.
func (w *wordOrCode) ScanText(v pgtype.Text) error {
	*w = wordOrCode{word: v.String}
	return nil
}

// ScanInt64 reads a code.
func (w *wordOrCode) ScanInt64(v pgtype.Int8) error {
	*w = wordOrCode{code: v.Int64}
	return nil
}

func decodeWord[W ~string](d *decoding, column string, v wordOrCode, of func(int16) (W, bool)) W {
	if v.code == 0 {
		return W(v.word)
	}
	word, ok := of(int16(v.code))
	if !ok {
		d.refuse(column, v.code, "which is no code")
	}
	return word
}

func (d *decoding) unsigned(column string, v int64) uint32 {
	if v < 0 || v > math.MaxUint32 {
		d.refuse(column, v, "outside 0 to 4294967295")
		return 0
	}
	return uint32(v)
}

func (d *decoding) key(column string, raw []byte) schedule.Key {
	var k schedule.Key
	if len(raw) != 0 && copy(k[:], raw) != len(k) {
		d.refuse(column, len(raw), "bytes where a key has 32")
	}
	return k
}
