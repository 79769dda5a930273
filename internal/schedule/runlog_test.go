package schedule_test

import (
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

func TestLastLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		parts []string
		n     int
		want  []string
	}{
		{"none of none", nil, 3, nil},
		{"none", []string{"a\n", "b\n"}, 0, nil},
		{"whole parts", []string{"a\n", "b\n", "c\n"}, 2, []string{"b\n", "c\n"}},
		{"a part of a part", []string{"a\nb\nc\n", "d\n"}, 3, []string{"b\nc\n", "d\n"}},
		{"the last line has no end", []string{"a\nb\nc"}, 1, []string{"c"}},
		{"empty lines count", []string{"a\n\n\nb\n"}, 3, []string{"\n\nb\n"}},
		{"fewer than asked for", []string{"a\n", "b"}, 9, []string{"a\n", "b"}},
		{"exactly one part", []string{"a\n", "b\nc\n"}, 2, []string{"b\nc\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var parts []schedule.LogPart
			for i, text := range c.parts {
				parts = append(parts, schedule.LogPart{Seq: int64(i + 1), Text: text, Skipped: 5})
			}
			var got []string
			for _, p := range schedule.LastLines(parts, c.n) {
				if whole := p.Text == c.parts[p.Seq-1]; (p.Skipped == 5) != whole {
					t.Errorf("part %d is whole: %t, and a gap of %d bytes is before it", p.Seq, whole, p.Skipped)
				}
				got = append(got, p.Text)
			}
			if strings.Join(got, "|") != strings.Join(c.want, "|") || len(got) != len(c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
