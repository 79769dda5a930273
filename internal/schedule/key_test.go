package schedule_test

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule"
)

// The golden keys come from sha256sum: printf 's1:1700000000' | sha256sum.
func TestKeysAreTheDocumentedHashes(t *testing.T) {
	at := time.Unix(1700000000, 999_999_999)
	slot := schedule.SlotKey("s1", at)
	for _, c := range []struct {
		name string
		key  schedule.Key
		want string
	}{
		{"a slot: s1:1700000000", slot, "ae0af69c2e0ffae51160a75a2cfb3de7d72155c14001518b98aa464592c49466"},
		{"by hand: s1/m/req", schedule.ManualKey("s1", "req"), "bb09f0bd2427ef3fb7245f8778818802ba6319fe5064b3d9ce0fac84e97b6ef8"},
		{"a backfill: s1/b/req/1700000000", schedule.BackfillKey("s1", "req", at), "d24f32cf9931c5d315f3746a9151d209d9efbb3464d82362b69e451d1f5c5a9b"},
		{"a retry: <slot's key>/r/req", schedule.RetryKey(slot, "req"), "7db83e26361e472151d34fe03c77882f825286f69453e6025c9831e29a503608"},
		// Its milliseconds, in 12 digits (printf %012x 1700000000999), and the first 52 of the hash.
		{"a job: q1/j/u1/req/0", schedule.JobKey(at, "q1", "u1", "req", 0), "018bcfe56be7a11c014b1d874807fb5a3f20e8467c5fbc2bd731da53fc32cacb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.key.String() != c.want {
				t.Errorf("key is %s; want %s", c.key, c.want)
			}
			if back, err := schedule.ParseKey(c.want); err != nil || back != c.key {
				t.Errorf("ParseKey: %v, %v", back, err)
			}
		})
	}
}

// TestKeysOfJobsAreInTheOrderOfTheirTimes: jobs of one time are neighbours in an index, and each
// place of a request has a key of its own.
func TestKeysOfJobsAreInTheOrderOfTheirTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		instant := rapid.Int64Range(0, 1<<47)
		a, b := instant.Draw(t, "a"), instant.Draw(t, "b")
		place := rapid.IntRange(0, 5000)
		i, j := place.Draw(t, "place of a"), place.Draw(t, "place of b")
		x := schedule.JobKey(time.UnixMilli(a), "q", "u", "r", i)
		y := schedule.JobKey(time.UnixMilli(b), "q", "u", "r", j)
		if order := slices.Compare(x[:], y[:]); a != b && order != cmp.Compare(a, b) || (order == 0) != (a == b && i == j) {
			t.Fatalf("%s of %d/%d and %s of %d/%d compare as %d", x, a, i, y, b, j, order)
		}
	})
}

func TestOnlySixtyFourHexDigitsAreAKey(t *testing.T) {
	for _, bad := range []string{"", "ab", strings.Repeat("g", 64), strings.Repeat("a", 65), strings.Repeat("a", 63)} {
		if _, err := schedule.ParseKey(bad); err == nil {
			t.Errorf("ParseKey(%q) is accepted", bad)
		}
	}
}

func TestAFractionOfAKeyIsTheExactProductOfItsFirstEightBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var key schedule.Key
		copy(key[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		n := rapid.Uint64Range(1, 1<<40).Draw(t, "n")
		u := new(big.Int).SetBytes(key[:8])
		want := new(big.Int).Rsh(u.Mul(u, new(big.Int).SetUint64(n)), 64).Uint64()
		if got := key.Fraction(n); got != want || got >= n {
			t.Fatalf("Fraction(%d) = %d; want %d", n, got, want)
		}
	})
}

func TestSchedulesOfOneOverlapKeyShareABucket(t *testing.T) {
	a := schedule.Definition{UserID: "u", ScheduleID: "a", OverlapKey: "k"}
	b := schedule.Definition{UserID: "u", ScheduleID: "b", OverlapKey: "k"}
	other := schedule.Definition{UserID: "v", ScheduleID: "c", OverlapKey: "k"}
	if a.QualifiedOverlapKey() != b.QualifiedOverlapKey() || a.QualifiedOverlapKey() == other.QualifiedOverlapKey() {
		t.Error("an overlap key belongs to its owner")
	}
	if got := schedule.Bucket(a.QualifiedOverlapKey()); got != schedule.Bucket(b.QualifiedOverlapKey()) || got < 0 || got >= schedule.Buckets {
		t.Errorf("bucket %d", got)
	}
}
