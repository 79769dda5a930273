package executor_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/executor"
)

func TestText(t *testing.T) {
	tests := []struct {
		name  string
		in    string
		limit int
		want  string
	}{
		{name: "short text stays as it is", in: "no such table", limit: 20, want: "no such table"},
		{name: "lines become one line", in: "  first\n\tsecond\r\n", limit: 20, want: "first second"},
		{name: "NUL and escape sequences go", in: "a\x00b\x1b[31mc", limit: 20, want: "a b [31mc"},
		{name: "what is not UTF-8 is marked", in: "a\xffb", limit: 20, want: "a\uFFFDb"},
		{name: "long text is cut with an ellipsis", in: strings.Repeat("x", 30), limit: 10, want: "xxxxxxx…"},
		{name: "a cut never splits a character", in: strings.Repeat("é", 30), limit: 10, want: "ééé…"},
		{name: "nothing stays nothing", in: " \n ", limit: 10, want: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := executor.Text(tt.in, tt.limit)
			if got != tt.want {
				t.Errorf("Text(%q, %d) = %q, want %q", tt.in, tt.limit, got, tt.want)
			}
			if len(got) > tt.limit || !utf8.ValidString(got) {
				t.Errorf("Text(%q, %d) has %d bytes, valid UTF-8: %v", tt.in, tt.limit, len(got), utf8.ValidString(got))
			}
		})
	}
}

func TestValidRunID(t *testing.T) {
	for id, want := range map[string]bool{
		"": true, "run-1": true, "läuft": true,
		"a\x00b": false, "a\nb": false, "\xff": false,
		strings.Repeat("r", executor.MaxRunID):   true,
		strings.Repeat("r", executor.MaxRunID+1): false,
	} {
		if got := executor.ValidRunID(id); got != want {
			t.Errorf("ValidRunID(%q) = %v, want %v", id, got, want)
		}
	}
}

func TestTraceParentNamesTheRunAndANewSpan(t *testing.T) {
	key := schedule.SlotKey("s", schedule.MinTime)
	a, b := executor.TraceParent(key), executor.TraceParent(key)
	form := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`)
	if !form.MatchString(a) || !strings.Contains(a, executor.TraceID(key)) {
		t.Errorf("TraceParent = %q, want the W3C form with trace id %s", a, executor.TraceID(key))
	}
	if a == b {
		t.Errorf("two calls share the span: %q", a)
	}
}
