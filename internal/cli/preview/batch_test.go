package preview

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

var batchNow = time.Date(2026, time.March, 8, 12, 0, 0, 0, time.UTC)

func batchOf(t testing.TB, in string) string {
	t.Helper()
	var out strings.Builder
	if err := answerBatch(strings.NewReader(in), &out, func() time.Time { return batchNow }); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestBatchAnswersALine(t *testing.T) {
	long := `{"expr":"@daily","count":1}` + strings.Repeat(" ", 200_000)
	for _, tt := range []struct {
		name, line, want string
	}{
		{name: "a gap", line: `{"expr":"30 2 * * *","tz":"America/New_York","after":"2024-03-09T12:00:00Z","count":2}`, want: `{"times":["2024-03-10T07:00:00Z","2024-03-11T06:30:00Z"]}`},
		{name: "a gap taken literally", line: `{"expr":"30 2 * * *","tz":"America/New_York","after":"2024-03-09T12:00:00Z","count":1,"dst":"literal"}`, want: `{"times":["2024-03-11T06:30:00Z"]}`},
		{name: "without tz it is UTC, without after now, without count five", line: `{"expr":"0 12 * * *"}`, want: `{"times":["2026-03-09T12:00:00Z","2026-03-10T12:00:00Z","2026-03-11T12:00:00Z","2026-03-12T12:00:00Z","2026-03-13T12:00:00Z"]}`},
		{name: "null is as if it were not there", line: `{"expr":"0 12 * * *","tz":null,"after":null,"count":1,"dst":null}`, want: `{"times":["2026-03-09T12:00:00Z"]}`},
		{name: "after itself is not a time", line: `{"expr":"@daily","after":"2024-01-01T00:00:00Z","count":1}`, want: `{"times":["2024-01-02T00:00:00Z"]}`},
		{name: "the fraction of after is dropped", line: `{"expr":"* * * * * *","after":"2024-01-01T00:00:00.999Z","count":1}`, want: `{"times":["2024-01-01T00:00:01Z"]}`},
		{name: "after has an offset", line: `{"expr":"@hourly","after":"2024-01-01T00:30:00+05:30","count":1}`, want: `{"times":["2023-12-31T20:00:00Z"]}`},
		{name: "no time asked for", line: `{"expr":"@daily","count":0}`, want: `{"times":[]}`},
		{name: "spaces and a carriage return around it", line: " {\"expr\":\"@daily\",\"after\":\"2024-01-01T00:00:00Z\",\"count\":1} \r", want: `{"times":["2024-01-02T00:00:00Z"]}`},
		{name: "longer than any buffer", line: long, want: `{"times":["2026-03-09T00:00:00Z"]}`},

		{name: "nothing", line: ``, want: `{"error":"the line is empty; write {\"expr\": \"…\", \"tz\": \"…\", \"after\": \"…\", \"count\": 5}"}`},
		{name: "spaces only", line: `   `, want: `{"error":"the line is empty; write {\"expr\": \"…\", \"tz\": \"…\", \"after\": \"…\", \"count\": 5}"}`},
		{name: "no JSON", line: `0 12 * * *`, want: `{"error":"the line is not a JSON object"}`},
		{name: "cut off", line: `{"expr":"@da`, want: `{"error":"the line is not JSON: unexpected EOF"}`},
		{name: "another kind of JSON", line: `["@daily"]`, want: `{"error":"the line is not a JSON object"}`},
		{name: "null", line: `null`, want: `{"error":"the line is not a JSON object"}`},
		{name: "two objects", line: `{"expr":"@daily"}{"expr":"@daily"}`, want: `{"error":"the line has text after its JSON object"}`},
		{name: "no expression", line: `{"tz":"UTC"}`, want: `{"error":"expr is required"}`},
		{name: "a field that does not exist", line: `{"expr":"@daily","timezone":"UTC"}`, want: `{"error":"json: unknown field \"timezone\"; the line may hold expr, tz, after, count and dst"}`},
		{name: "a count as text", line: `{"expr":"@daily","count":"3"}`, want: `{"error":"count is a JSON string, not a whole number"}`},
		{name: "a broken count", line: `{"expr":"@daily","count":1.5}`, want: `{"error":"count is a JSON number 1.5, not a whole number"}`},
		{name: "an expression as a number", line: `{"expr":5}`, want: `{"error":"expr is a JSON number, not a text"}`},
		{name: "too many", line: `{"expr":"@daily","count":10001}`, want: `{"error":"count 10001 is not within 0 to 10000"}`},
		{name: "fewer than none", line: `{"expr":"@daily","count":-1}`, want: `{"error":"count -1 is not within 0 to 10000"}`},
		{name: "an expression out of range", line: `{"expr":"60 * * * *"}`, want: `{"error":"cron minute \"60\": 60 is out of range; minute takes 0-59"}`},
		{name: "an unknown zone", line: `{"expr":"@daily","tz":"europe/berlin"}`, want: `{"error":"time zone \"europe/berlin\": is spelled Europe/Berlin"}`},
		{name: "an empty zone", line: `{"expr":"@daily","tz":""}`, want: `{"error":"time zone \"\": is empty; write an IANA name such as Europe/Berlin, or UTC"}`},
		{name: "an unknown policy", line: `{"expr":"@daily","dst":"x"}`, want: `{"error":"dst \"x\" is not a policy; write vixie or literal"}`},
		{name: "a time without an offset", line: `{"expr":"@daily","after":"2024-01-01 00:00"}`, want: `{"error":"after \"2024-01-01 00:00\" is not RFC 3339, such as 2024-03-09T12:00:00Z"}`},
		{name: "what never fires", line: `{"expr":"0 0 30 2 *"}`, want: `{"error":"it never fires: the cron expression never matches within 50 years"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := batchOf(t, tt.line+"\n"); got != tt.want+"\n" {
				t.Errorf("got  %swant %s", got, tt.want)
			}
		})
	}
}

func TestBatchLineOfMoreThanAMebibyteIsRefusedAlone(t *testing.T) {
	in := `{"expr":"@daily","count":0}` + "\n" + strings.Repeat(" ", maxLine) + "x\n" + `{"expr":"@daily","count":0}` + strings.Repeat(" ", maxLine-27) + "\n" + `{"expr":"@daily","count":0}`
	want := "{\"times\":[]}\n{\"error\":\"the line has more than 1048576 bytes\"}\n{\"times\":[]}\n{\"times\":[]}\n"
	if got := batchOf(t, in); got != want {
		t.Errorf("got %s", got)
	}
}

func TestBatchWithoutALineAnswersNothing(t *testing.T) {
	if got := batchOf(t, ""); got != "" {
		t.Errorf("got %q", got)
	}
}

// Whatever the lines contain, each gets one answer: JSON of one of the two forms, the
// same as for the line alone.
func TestBatchKeepsLinesAndAnswersAligned(t *testing.T) {
	line := rapid.OneOf(
		rapid.StringMatching(`[^\n]{0,30}`),
		rapid.SampledFrom([]string{``, `{}`, `{"expr":"@daily","count":1}`, `{"expr":"bad"}`, `{"expr":"@hourly","tz":"Asia/Tokyo","count":3}`, "\x00\xff", strings.Repeat("a", 70_000)}),
		rapid.Custom(func(t *rapid.T) string {
			text, err := json.Marshal(map[string]any{
				"expr":  rapid.StringMatching(`[0-9*/,L#?-]{1,5}( [0-9*/,]{1,4}){4}`).Draw(t, "expr"),
				"tz":    rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Nowhere"}).Draw(t, "tz"),
				"count": rapid.IntRange(-1, 20).Draw(t, "count"),
			})
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}),
	)
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOfN(line, 0, 20).Draw(rt, "lines")
		in := strings.Join(lines, "\n")
		if len(lines) > 0 && (lines[len(lines)-1] == "" || rapid.Bool().Draw(rt, "line feed at the end")) {
			in += "\n"
		}
		answers := strings.SplitAfter(batchOf(t, in), "\n")
		if last := len(answers) - 1; last != len(lines) || answers[last] != "" {
			rt.Fatalf("%d lines, %d answers", len(lines), last)
		}
		for i, line := range lines {
			var answer struct {
				Times []time.Time
				Error *string
			}
			if err := json.Unmarshal([]byte(answers[i]), &answer); err != nil || (answer.Times == nil) != (answer.Error != nil) {
				rt.Fatalf("line %q: %v: %s", line, err, answers[i])
			}
			if alone := batchOf(t, line+"\n"); alone != answers[i] {
				rt.Fatalf("line %q alone: %s", line, alone)
			}
		}
	})
}

func TestBatchAgreesWithTheTimeline(t *testing.T) {
	zones := []string{"UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"}
	rapid.Check(t, func(rt *rapid.T) {
		expr := fmt.Sprintf("%d %d * * *", rapid.IntRange(0, 59).Draw(rt, "minute"), rapid.IntRange(0, 23).Draw(rt, "hour"))
		zone := rapid.SampledFrom(zones).Draw(rt, "zone")
		after := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(rt, "after"), 0).UTC()
		loc, err := cronexpr.LoadLocation(zone)
		if err != nil {
			rt.Fatal(err)
		}
		parsed, err := cronexpr.Parse(expr)
		if err != nil {
			rt.Fatal(err)
		}
		var want []string
		for at := after; len(want) < 7; {
			at, _ = parsed.In(loc, cronexpr.Vixie).Next(at)
			want = append(want, at.Format(time.RFC3339))
		}
		in := fmt.Sprintf(`{"expr":%q,"tz":%q,"after":%q,"count":7}`, expr, zone, after.Format(time.RFC3339))
		var got struct{ Times []string }
		if err := json.Unmarshal([]byte(batchOf(t, in)), &got); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Times); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// A program that asks one line at a time, and half a line now and then, gets
// each answer before it asks on.
func TestBatchAnswersACoProcessLineByLine(t *testing.T) {
	fromUs, questions := io.Pipe()
	answers, toUs := io.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		toUs.CloseWithError(errors.Join(answerBatch(fromUs, toUs, func() time.Time { return batchNow }), io.EOF))
	})
	lines := bufio.NewReader(answers)
	for _, parts := range [][]string{
		{`{"expr":"@daily","count":0}` + "\n"},
		{`{"expr":"@daily",`, `"count":0}` + "\n"},
		{"\n{\"expr\":", "\"@daily\",\"count\":0}\n"},
	} {
		for _, part := range parts {
			if _, err := io.WriteString(questions, part); err != nil {
				t.Fatal(err)
			}
			for range strings.Count(part, "\n") {
				if _, err := lines.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := questions.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); len(rest) > 0 {
		t.Errorf("more answers than lines: %q, %v", rest, err)
	}
	serving.Wait()
}

func TestBatchEndsWhenNobodyReadsIt(t *testing.T) {
	gone := errors.New("broken pipe")
	err := answerBatch(strings.NewReader("{}\n"), writerFunc(func([]byte) (int, error) { return 0, gone }), time.Now)
	if !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

func BenchmarkBatch(b *testing.B) {
	const lines = 1000
	var in strings.Builder
	for i := range lines {
		fmt.Fprintf(&in, `{"expr":"%d %d * * *","tz":"America/New_York","after":"2024-03-09T12:00:00Z","count":5}`+"\n", i%60, i%24)
	}
	for b.Loop() {
		batchOf(b, in.String())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/lines, "ns/line")
}
