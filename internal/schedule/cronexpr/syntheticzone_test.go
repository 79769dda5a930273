package cronexpr_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// No real zone changes its clock twice within 26 hours, but the rules speak of
// it. shift is one change of a made-up zone.
type shift struct {
	at     int64
	offset int32
}

// madeUpZone encodes shifts as TZif version 1 (RFC 8536).
func madeUpZone(t interface{ Fatal(...any) }, first int32, shifts []shift) *time.Location {
	raw := append([]byte("TZif"), make([]byte, 16)...)
	for _, n := range []int{0, 0, 0, len(shifts), len(shifts) + 1, 4} {
		raw = binary.BigEndian.AppendUint32(raw, uint32(n))
	}
	for _, s := range shifts {
		raw = binary.BigEndian.AppendUint32(raw, uint32(s.at))
	}
	for i := range shifts {
		raw = append(raw, byte(i+1))
	}
	for i := range len(shifts) + 1 {
		offset := first
		if i > 0 {
			offset = shifts[i-1].offset
		}
		raw = append(binary.BigEndian.AppendUint32(raw, uint32(offset)), 0, 0)
	}
	loc, err := time.LoadLocationFromTZData("Made/Up", append(raw, "MUZ\x00"...))
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestChangesWithinADayOfEachOtherAgreeWithBruteForce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const noon = 1_700_000_000 / 86400 * 86400
		at := int64(noon)
		var shifts []shift
		for range rapid.IntRange(2, 4).Draw(t, "changes") {
			at += 60 * rapid.Int64Range(10, 30*60).Draw(t, "minutes later")
			shifts = append(shifts, shift{at, int32(1800 * rapid.IntRange(-5, 5).Draw(t, "half hours"))})
		}
		loc := madeUpZone(t, 0, shifts)
		w := observe(loc, noon-3600, at+30*3600, 60)
		for range 10 {
			text := minuteExpr().Draw(t, "expr")
			dst := rapid.SampledFrom(policies).Draw(t, "dst")
			e, err := cronexpr.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			got, want := firing(e.In(loc, dst), w), newOracle(text).slots(w, dst)
			if !slices.Equal(got, want) {
				t.Fatalf("%q (%s) %v:\n got%s\nwant%s", text, dst, shifts, show(loc, got), show(loc, want))
			}
		}
	})
}
