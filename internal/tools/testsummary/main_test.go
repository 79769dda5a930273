package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// newModule writes a module with one package of tests.
func newModule(t *testing.T, name, tests string) string {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"go.mod":    "module " + name + "\n\ngo 1.26.0\n",
		"x_test.go": "package x\n\nimport \"testing\"\n\n" + tests,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheTestsOfAllModulesAreCounted(t *testing.T) {
	good := "func TestOne(*testing.T) {}\nfunc TestTwo(*testing.T) {}\n"
	bad := "func TestThree(t *testing.T) { t.Error(\"it broke\") }\n"
	for _, c := range []struct {
		name        string
		here, there string
		code        int
		want        string
	}{
		{name: "both pass", here: good, there: good, want: "4 passed, 0 failed, 0 skipped"},
		{name: "the first fails", here: bad, there: good, code: 1, want: "2 passed, 1 failed, 0 skipped"},
		{name: "the second fails", here: good, there: bad, code: 1, want: "2 passed, 1 failed, 0 skipped"},
		{name: "the second does not build", here: good, there: "func TestFour(", code: 1, want: "2 passed, 1 failed, 0 skipped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(newModule(t, "here", c.here))
			var out strings.Builder
			code, err := run([]string{"-also", newModule(t, "there", c.there), "./..."}, &out)
			lines := regexp.MustCompile(`\d+ passed.*`).FindAllString(out.String(), -1)
			if code != c.code || err != nil || len(lines) != 1 || !strings.HasSuffix(out.String(), c.want+"\n") {
				t.Errorf("exit code %d, %v, want %d and %q; printed\n%s", code, err, c.code, c.want, out.String())
			}
		})
	}
}
