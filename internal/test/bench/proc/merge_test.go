package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// profiled writes a profile of one function that was seen so often.
func profiled(t *testing.T, function string, samples int64, kind string) string {
	t.Helper()
	f := &profile.Function{ID: 1, Name: function, Filename: "module/file.go", StartLine: 7}
	m := &profile.Mapping{ID: 1, Start: 0x400000, Limit: 0x500000, File: "/home/somebody/bin/bench"}
	l := &profile.Location{ID: 1, Mapping: m, Address: 0x400123, Line: []profile.Line{{Function: f, Line: 9}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: kind, Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Mapping:    []*profile.Mapping{m}, Function: []*profile.Function{f}, Location: []*profile.Location{l},
		TimeNanos: 1, DurationNanos: 1, Period: 10_000_000, PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
	}
	p.Sample = []*profile.Sample{{
		Location: []*profile.Location{l}, Value: []int64{samples, samples * p.Period},
		Label: map[string][]string{"host": {"somebody"}},
	}}
	path := filepath.Join(t.TempDir(), function)
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAMergedProfileCountsEachOfItsPartsAlikeAndNamesNoMachine(t *testing.T) {
	merged, err := Merge([]string{
		profiled(t, "long", 90_000, "samples"), profiled(t, "short", 300, "samples"), profiled(t, "idle", 12, "samples"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var weights []int64
	for _, s := range merged.Sample {
		weights = append(weights, s.Value[0])
		if line := s.Location[0].Line[0]; line.Line != 9 || line.Function.StartLine != 7 {
			t.Errorf("%s stands at line %d of a function that begins at %d, want 9 and 7", line.Function.Name, line.Line, line.Function.StartLine)
		}
	}
	if !slices.Equal(weights, []int64{1_000_000, 1_000_000}) {
		t.Errorf("weights %v, want a million each", weights)
	}
	if text := merged.String(); strings.Contains(text, "somebody") || strings.Contains(text, "400123") {
		t.Errorf("the merged profile tells of the machine:\n%s", text)
	}
}

func TestWhatIsNoCPUProfileIsRefused(t *testing.T) {
	if _, err := Merge([]string{profiled(t, "heap", 1, "alloc_objects")}); err == nil || !strings.Contains(err.Error(), "no CPU profile") {
		t.Errorf("error %v, want one that says it is no CPU profile", err)
	}
	if _, err := Merge([]string{profiled(t, "idle", 12, "samples")}); err == nil || !strings.Contains(err.Error(), "no profile has 100 samples") {
		t.Errorf("error %v, want one that says none has enough", err)
	}
}
