package result_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/result"
	"github.com/carillon/carillon/internal/schedule"
)

func TestAPartOfAnAnswerThatCannotBeKeptIsLeftOutAndSaysWhy(t *testing.T) {
	t.Parallel()
	quoted := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	list := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"name":"a"},`, n), ",") + "]"
	}
	sha := strings.Repeat("0af9", 16)
	for _, tc := range []struct {
		name, exit, result, artifacts string
		want                          *schedule.RunResult
		code                          *int32
	}{
		{name: "nothing"},
		{name: "null counts as nothing", exit: "null", result: " null ", artifacts: "null"},
		{name: "an empty list counts as nothing", artifacts: "[]"},
		{name: "an exit code alone needs no result", exit: "-3", code: new(int32(-3))},
		{name: "a result is kept byte for byte", result: `{"b": 1.50, "a": 12345678901234567890}`, want: &schedule.RunResult{Result: []byte(`{"b": 1.50, "a": 12345678901234567890}`)}},
		{name: "a result of 65536 bytes", result: quoted(65536), want: &schedule.RunResult{Result: []byte(quoted(65536))}},
		{name: "a result of 65537 bytes", exit: "1", result: quoted(65537), code: new(int32(1)), want: &schedule.RunResult{Problem: "result has 65537 bytes, more than 65536: it was not kept"}},
		{
			name: "a result that is too deep", result: strings.Repeat("[", 33) + strings.Repeat("]", 33),
			want: &schedule.RunResult{Problem: "result is nested deeper than 32 levels: it was not kept"},
		},
		{name: "a member twice", result: `{"a":1,"a":2}`, want: &schedule.RunResult{Problem: `result has the member "a" twice in one object: it was not kept`}},
		{name: "NUL", result: `"\u0000"`, want: &schedule.RunResult{Problem: `result holds the NUL character (\u0000): it was not kept`}},
		{name: "an artifact", artifacts: `[{"name":"a","url":"s3://b/c","bytes":9007199254740992,"sha256":"` + sha + `","more":1}]`, want: &schedule.RunResult{
			Artifacts: []schedule.Artifact{{Name: "a", URL: "s3://b/c", Bytes: 1 << 53, SHA256: sha}},
		}},
		{name: "20 artifacts and a result that is refused", result: `{`, artifacts: list(20), want: &schedule.RunResult{
			Artifacts: func() (all []schedule.Artifact) {
				for range 20 {
					all = append(all, schedule.Artifact{Name: "a"})
				}
				return all
			}(), Problem: "result is not JSON: unexpected end of JSON input (byte 1): it was not kept",
		}},
		{name: "21 artifacts and a result", result: `1`, artifacts: list(21), want: &schedule.RunResult{Result: []byte("1"), Problem: "artifacts has 21 entries, more than 20: no artifact was kept"}},
		{name: "artifacts that are no list", artifacts: `{"name":"a"}`, want: &schedule.RunResult{Problem: "artifacts is not a list of {name, url, bytes, sha256}: no artifact was kept"}},
		{name: "bytes as a text", artifacts: `[{"name":"a","bytes":"1"}]`, want: &schedule.RunResult{Problem: "artifacts is not a list of {name, url, bytes, sha256}: no artifact was kept"}},
		{name: "an exit code as a text, and two more problems", exit: `"1"`, result: `{`, artifacts: `[{}]`, want: &schedule.RunResult{
			Problem: `exit_code "\"1\"" is not a whole number of 32 bits: it was not kept; result is not JSON: unexpected end of JSON input (byte 1): it was not kept; artifacts[0].name is required: no artifact was kept`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := result.Members{ExitCode: json.RawMessage(tc.exit), Result: json.RawMessage(tc.result), Artifacts: json.RawMessage(tc.artifacts)}
			code, got := m.Read()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.code, code); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnArtifactThatIsWrongIsRefusedByFieldValueAndLimit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sent result.Artifact
		want string
	}{
		{result.Artifact{Name: strings.Repeat("x", 257)}, "artifacts[1].name has 257 bytes, more than 256"},
		{result.Artifact{Name: "a\nb"}, `artifacts[1].name "a\nb" contains control characters or invalid text`},
		{result.Artifact{Name: "\xff"}, `artifacts[1].name "\xff" contains control characters or invalid text`},
		{result.Artifact{Name: "a", Bytes: -1}, "artifacts[1].bytes -1 is not a whole number from 0 to 9007199254740992"},
		{result.Artifact{Name: "a", Bytes: 1.5}, "artifacts[1].bytes 1.5 is not a whole number from 0 to 9007199254740992"},
		{result.Artifact{Name: "a", Bytes: 1 << 54}, "artifacts[1].bytes 1.8014398509481984e+16 is not a whole number from 0 to 9007199254740992"},
		{result.Artifact{Name: "a", SHA256: "AB"}, `artifacts[1].sha256 "AB" is not 64 hex digits in lower case`},
		{result.Artifact{Name: "a", URL: "x://" + strings.Repeat("y", 2045)}, "artifacts[1].url has 2049 bytes, more than 2048"},
		{result.Artifact{Name: "a", URL: "/path"}, "artifacts[1].url is not an absolute URL"},
		{result.Artifact{Name: "a", URL: "https://u:p@host/x"}, "artifacts[1].url holds credentials"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			t.Parallel()
			got := result.Of(nil, []result.Artifact{{Name: "good"}, tc.sent})
			if want := tc.want + ": no artifact was kept"; got == nil || got.Problem != want || len(got.Artifacts) > 0 {
				t.Errorf("got %+v, want %s", got, want)
			}
		})
	}
}

func TestAProblemIsAsShortAsItMayBeStored(t *testing.T) {
	t.Parallel()
	raw := fmt.Appendf(nil, `{%[1]q:1,%[1]q:2}`, strings.Repeat("ü", 5000))
	if got := result.Of(raw, nil); len(got.Problem) > schedule.MaxResultNote || !strings.HasPrefix(got.Problem, "result has the member") {
		t.Errorf("%d bytes: %s", len(got.Problem), got.Problem)
	}
}
