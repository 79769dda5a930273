package crontab_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/cli/crontab"
)

// Ten times the lines may cost ten times the memory and allocations, with some
// room for maps and slices that grow in steps. Both are counts of work that do
// not depend on the speed of the machine.
func TestTenTimesTheLinesCostTenTimesTheWork(t *testing.T) {
	for _, tt := range []struct {
		name string
		text func(lines int) string
	}{
		{"one command on every line", func(n int) string { return strings.Repeat("* * * * * backup.sh\n", n) }},
		{"names that look like numbered ones", func(n int) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, "* * * * * a-%d\n* * * * * a\n", i)
			}
			return b.String()
		}},
		{"settings, then commands", func(n int) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, "V%d=x\n", i)
			}
			return b.String() + strings.Repeat("* * * * * a\n", n)
		}},
		{"a setting above every command", func(n int) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, "V%d=x\n* * * * * a\n", i)
			}
			return b.String()
		}},
		{"one long setting, then commands", func(n int) string {
			return "V=" + strings.Repeat("x", 8*n) + "\n" + strings.Repeat("* * * * * a\n", n)
		}},
		{"comments above every command", func(n int) string { return strings.Repeat("# a\n# b\n* * * * * a\n", n) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cost := func(lines int) (allocations, size uint64) {
				text := tt.text(lines)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if _, err := crontab.Parse(text, crontab.Options{}).Workflows(crontab.Naming{Version: 1, Overlap: "allow"}); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
			}
			cost(500) // fills the caches of expressions and zones
			few, small := cost(500)
			many, large := cost(5000)
			if many > 15*few || large > 15*small {
				t.Errorf("500 lines cost %d allocations of %d bytes, 5000 lines %d of %d: more than 15 times as many", few, small, many, large)
			}
		})
	}
}

func TestSettingsBeyondTheBoundsAreNamed(t *testing.T) {
	var many strings.Builder
	for i := range crontab.MaxSettings + 1 {
		fmt.Fprintf(&many, "V%d=x\n", i)
	}
	half := strings.Repeat("x", crontab.MaxSettingsBytes/2-1)
	full := "V=" + half + "\nW=" + half + "\n"
	for _, tt := range []struct {
		name, text string
		variables  int
		note       string
	}{
		{"one variable more than are kept", many.String(), crontab.MaxSettings, "line 101: is not imported: the settings above a line are at most 100, with 16384 bytes together"},
		{"one byte more than is kept", "U=\n" + full, 2, "line 3: is not imported"},
		{"as many bytes as are kept", full, 2, ""},
		{"the same variable again", strings.Repeat("V=x\n", 1000), 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := crontab.Parse(tt.text+"* * * * * a\n", crontab.Options{})
			if len(f.Entries) != 1 || len(f.Entries[0].Env) != tt.variables {
				t.Fatalf("%d entries %v", len(f.Entries), f.Entries)
			}
			if tt.note == "" != (len(f.Notes) == 0) || tt.note != "" && (!strings.HasPrefix(f.Notes[0].String(), tt.note) || !f.Lost()) {
				t.Errorf("notes %v, want %q", f.Notes, tt.note)
			}
		})
	}
}
