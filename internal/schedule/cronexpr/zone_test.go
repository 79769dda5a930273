package cronexpr_test

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

func TestOnlyExactZoneNamesAreAccepted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, problem string }{
		{"", "is empty; write an IANA name"},
		{"Local", "depends on the machine"},
		{"local", "is not in the zone data 2025c"},
		{"utc", "is spelled UTC"},
		{"europe/berlin", "is spelled Europe/Berlin"},
		{"America/New York", "is not in the zone data"},
		{"America/", "is not in the zone data"},
		{"America", "is not in the zone data"},
		{"../etc/localtime", "is not in the zone data"},
		{"/usr/share/zoneinfo/UTC", "is not in the zone data"},
		{"Europe/../UTC", "is not in the zone data"},
		{"Europe/Berlin ", "is not in the zone data"},
		{"Europe/Berlin\x00", "is not in the zone data"},
		{"+02:00", "is not in the zone data"},
		{"zoneinfo.zip", "is not in the zone data"},
	} {
		loc, err := cronexpr.LoadLocation(c.name)
		var zoneError *cronexpr.ZoneError
		if !errors.As(err, &zoneError) || zoneError.Name != c.name || !strings.HasPrefix(zoneError.Problem, c.problem) {
			t.Errorf("LoadLocation(%q) = %v, %v", c.name, loc, err)
		}
	}
}

func TestEveryListedZoneLoadsUnderItsOwnName(t *testing.T) {
	t.Parallel()
	names := cronexpr.Zones()
	if len(names) < 590 || !slices.IsSorted(names) {
		t.Fatalf("%d zones, sorted %v", len(names), slices.IsSorted(names))
	}
	for _, name := range names {
		if loc := mustZone(t, name); loc.String() != name {
			t.Errorf("%s loads as %s", name, loc)
		}
	}
	if mustZone(t, "UTC") != time.UTC {
		t.Error("UTC is not time.UTC")
	}
}

func TestConcurrentLoadsShareOneLocation(t *testing.T) {
	t.Parallel()
	var (
		group sync.WaitGroup
		locs  [16]*time.Location
	)
	for i := range locs {
		group.Go(func() { locs[i], _ = cronexpr.LoadLocation("Pacific/Chatham") })
	}
	group.Wait()
	for _, loc := range locs {
		if loc == nil || loc != locs[0] {
			t.Fatalf("%p and %p", loc, locs[0])
		}
	}
}

// The constant and the archive must be changed together. The sum is that of
// lib/time/zoneinfo.zip in Go 1.26.8, whose update.bash says 2025c.
func TestArchiveIsOfTheNamedVersion(t *testing.T) {
	t.Parallel()
	archive, err := os.ReadFile("zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{"2025c": "8f55634d05f8bca1f7bc7c69c5933428c69357e0bdf565e5ba224e3f88ff12e8"}
	sum := sha256.Sum256(archive)
	if got := hex.EncodeToString(sum[:]); got != sums[cronexpr.TZDataVersion()] {
		t.Errorf("zone data %s have the checksum %s", cronexpr.TZDataVersion(), got)
	}
}

// A location that the package did not load has no table; it is asked period by
// period. Both ways must see the same slots, before, in and after the table.
func TestForeignLocationsHaveTheSameSlots(t *testing.T) {
	t.Parallel()
	names := cronexpr.Zones()
	archive, err := zip.OpenReader("zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "zone")
		file, err := archive.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		raw, err := io.ReadAll(file)
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := time.LoadLocationFromTZData(name, raw)
		if err != nil {
			t.Fatal(err)
		}
		loc, _ := cronexpr.LoadLocation(name)
		e, err := cronexpr.Parse(rapid.SampledFrom([]string{
			"0 */6 * * *", "30 1,2 * * *", "0 0 * * *", "0,30 23 28-31 12 *", "15 2 * * SUN",
		}).Draw(t, "expr"))
		if err != nil {
			t.Fatal(err)
		}
		year := rapid.IntRange(1880, 2200).Draw(t, "year")
		from := time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC)
		own := take(e.In(loc, cronexpr.Vixie), from, 800)
		theirs := take(e.In(foreign, cronexpr.Vixie), from, 800)
		if !slices.EqualFunc(own, theirs, time.Time.Equal) {
			t.Fatalf("%s %q from %d differ", name, e, year)
		}
	})
}

func TestTheEndsOfTimeAreSafe(t *testing.T) {
	t.Parallel()
	daily := mustParse(t, "0 0 * * *")
	for _, c := range []struct {
		name  string
		after time.Time
		want  string // empty: none
	}{
		{"the zero time", time.Time{}, "0001-01-02T00:00:00Z"},
		{"before the first year", time.Time{}.AddDate(0, 0, -10), "0001-01-01T00:00:00Z"},
		{"long before", time.Unix(-1<<50, 0), ""},
		{"the last day", time.Date(9999, 12, 30, 12, 0, 0, 0, time.UTC), "9999-12-31T00:00:00Z"},
		{"after the last day", time.Date(9999, 12, 31, 12, 0, 0, 0, time.UTC), ""},
		{"long after", time.Unix(1<<50, 0), ""},
	} {
		for _, zone := range []*time.Location{time.UTC, nil} {
			got, ok := daily.In(zone, "").Next(c.after)
			if ok != (c.want != "") || ok && got.Format(time.RFC3339) != c.want {
				t.Errorf("%s: %v, %v", c.name, got, ok)
			}
		}
		for _, zone := range []string{"America/New_York", "Asia/Tokyo"} {
			tl := daily.In(mustZone(t, zone), cronexpr.Vixie)
			if got, ok := tl.Next(c.after); ok && !got.After(c.after) {
				t.Errorf("%s in %s: %v, %v", c.name, zone, got, ok)
			}
		}
	}
}
