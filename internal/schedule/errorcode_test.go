package schedule_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

func TestExecutorErrorCodesAreWords(t *testing.T) {
	for _, tt := range []struct {
		name string
		said string
		want string
	}{
		{name: "a word stays as it is", said: "rate_limit", want: "rate_limit"},
		{name: "mixed case and characters of ids stay", said: "E-42:Disk.Full_1", want: "E-42:Disk.Full_1"},
		{name: "nothing stays nothing", said: "", want: ""},
		{name: "white space is nothing", said: " \n\t", want: ""},
		{name: "a sentence becomes one word", said: "no space left, on /dev/sda1!", want: "no_space_left_on_dev_sda1"},
		{name: "line breaks and NUL cannot get in", said: "a\x00b\r\nc", want: "a_b_c"},
		{name: "other letters leave a gap", said: "für", want: "f_r"},
		{name: "without any valid character it is other", said: "ошибка", want: "other"},
		{name: "the longest is kept whole", said: strings.Repeat("x", schedule.MaxErrorCode), want: strings.Repeat("x", schedule.MaxErrorCode)},
		{name: "a longer one is cut", said: strings.Repeat("x", schedule.MaxErrorCode+1), want: strings.Repeat("x", schedule.MaxErrorCode)},
		{name: "a gap counts too", said: strings.Repeat("x !", schedule.MaxErrorCode), want: strings.Repeat("x_", schedule.MaxErrorCode/2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := schedule.ExecutorErrorCode(tt.said)
			if got != tt.want || schedule.ExecutorErrorCode(got) != got {
				t.Errorf("ExecutorErrorCode(%q) = %q, want %q, and again the same", tt.said, got, tt.want)
			}
		})
	}
}

func TestOurOwnErrorCodesAreWordsToo(t *testing.T) {
	seen := make(map[schedule.ErrorCode]bool)
	for _, code := range schedule.ErrorCodes {
		if schedule.ExecutorErrorCode(string(code)) != string(code) || seen[code] {
			t.Errorf("%q is no word, or is listed twice", code)
		}
		seen[code] = true
	}
}

func TestTheListOfErrorCodesIsWhole(t *testing.T) {
	source, err := parser.ParseFile(token.NewFileSet(), "errorcode.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var constants []string
	ast.Inspect(source, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && strings.HasPrefix(spec.Names[0].Name, "Code") {
				constants = append(constants, strings.Trim(value.Value, `"`))
			}
		}
		return true
	})
	var listed []string
	for _, code := range schedule.ErrorCodes {
		listed = append(listed, string(code))
	}
	if !slices.Equal(listed, constants) {
		t.Errorf("ErrorCodes is %v, the constants are %v", listed, constants)
	}
	page, err := os.ReadFile("../../docs/executors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Error codes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, code := range listed {
		if !strings.Contains(section, "`"+code+"`") {
			t.Errorf("docs/executors.md does not name %s", code)
		}
	}
}
