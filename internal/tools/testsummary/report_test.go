package main

import (
	"strings"
	"testing"
	"time"
)

// The events are what go test -json prints, less the fields that are not read.
func TestReport(t *testing.T) {
	for _, test := range []struct {
		name     string
		events   string
		expected string
	}{
		{
			name: "a package that passes is one line, however much it says",
			events: `
				{"Action":"start","Package":"m/a"}
				{"Action":"run","Package":"m/a","Test":"TestOne"}
				{"Action":"output","Package":"m/a","Test":"TestOne","Output":"=== RUN   TestOne\n"}
				{"Action":"output","Package":"m/a","Test":"TestOne","Output":"    a_test.go:3: noise\n"}
				{"Action":"pass","Package":"m/a","Test":"TestOne"}
				{"Action":"output","Package":"m/a","Output":"PASS\n"}
				{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.1s\n"}
				{"Action":"pass","Package":"m/a"}`,
			expected: `
				ok  	m/a	0.1s
				tests took 1.2s
				1 passed, 0 failed, 0 skipped`,
		},
		{
			name: "a test with subtests is not counted, its subtests are",
			events: `
				{"Action":"run","Package":"m/a","Test":"TestOne"}
				{"Action":"run","Package":"m/a","Test":"TestOne/x"}
				{"Action":"pass","Package":"m/a","Test":"TestOne/x"}
				{"Action":"run","Package":"m/a","Test":"TestOne/a/name/with/slashes"}
				{"Action":"pass","Package":"m/a","Test":"TestOne/a/name/with/slashes"}
				{"Action":"pass","Package":"m/a","Test":"TestOne"}
				{"Action":"pass","Package":"m/a"}`,
			expected: `
				tests took 1.2s
				2 passed, 0 failed, 0 skipped`,
		},
		{
			name: "a failure is shown whole and counted once",
			events: `
				{"Action":"run","Package":"m/a","Test":"TestOne"}
				{"Action":"run","Package":"m/a","Test":"TestOne/bad"}
				{"Action":"output","Package":"m/a","Test":"TestOne/bad","Output":"=== RUN   TestOne/bad\n"}
				{"Action":"output","Package":"m/a","Test":"TestOne/bad","Output":"    a_test.go:3: it broke\n"}
				{"Action":"output","Package":"m/a","Test":"TestOne/bad","Output":"--- FAIL: TestOne/bad\n"}
				{"Action":"fail","Package":"m/a","Test":"TestOne/bad"}
				{"Action":"run","Package":"m/a","Test":"TestOne/good"}
				{"Action":"output","Package":"m/a","Test":"TestOne/good","Output":"    a_test.go:9: noise\n"}
				{"Action":"pass","Package":"m/a","Test":"TestOne/good"}
				{"Action":"fail","Package":"m/a","Test":"TestOne"}
				{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}
				{"Action":"fail","Package":"m/a"}`,
			expected: `
				    a_test.go:3: it broke
				--- FAIL: TestOne/bad
				FAIL	m/a	0.1s
				tests took 1.2s
				1 passed, 1 failed, 0 skipped`,
		},
		{
			name: "skipped tests are grouped by their reason, wherever it was said",
			events: `
				{"Action":"run","Package":"m/a","Test":"TestOne"}
				{"Action":"output","Package":"m/a","Test":"TestOne","Output":"=== RUN   TestOne\n"}
				{"Action":"output","Package":"m/a","Test":"TestOne","Output":"    a_test.go:3: no server\n"}
				{"Action":"output","Package":"m/a","Test":"TestOne","Output":"--- SKIP: TestOne (0.00s)\n"}
				{"Action":"skip","Package":"m/a","Test":"TestOne"}
				{"Action":"run","Package":"m/a","Test":"TestTwo"}
				{"Action":"output","Package":"m/a","Test":"TestTwo","Output":"    a_test.go:8: no server\n"}
				{"Action":"skip","Package":"m/a","Test":"TestTwo"}
				{"Action":"pass","Package":"m/a"}`,
			expected: `
				skipped 2: no server (a.TestOne, a.TestTwo)
				tests took 1.2s
				0 passed, 0 failed, 2 skipped`,
		},
		{
			name: "a package that does not build is one failure, with what the compiler said",
			events: `
				{"Action":"build-output","ImportPath":"m/a [m/a.test]","Output":"a_test.go:3: undefined: x\n"}
				{"Action":"build-fail","ImportPath":"m/a [m/a.test]"}
				{"Action":"output","Package":"m/a","Output":"FAIL\tm/a [build failed]\n"}
				{"Action":"fail","Package":"m/a","FailedBuild":"m/a [m/a.test]"}`,
			expected: `
				a_test.go:3: undefined: x
				FAIL	m/a [build failed]
				tests took 1.2s
				0 passed, 1 failed, 0 skipped`,
		},
		{
			name: "a package that fails after its tests passed is one failure",
			events: `
				{"Action":"run","Package":"m/a","Test":"TestOne"}
				{"Action":"pass","Package":"m/a","Test":"TestOne"}
				{"Action":"output","Package":"m/a","Output":"goleak: one goroutine left\n"}
				{"Action":"fail","Package":"m/a"}`,
			expected: `
				goleak: one goroutine left
				tests took 1.2s
				1 passed, 1 failed, 0 skipped`,
		},
		{
			name: "a test that never ended failed, even when go test was killed",
			events: `
				{"Action":"run","Package":"m/a","Test":"TestOne"}
				{"Action":"output","Package":"m/a","Test":"TestOne","Output":"its last words\n"}`,
			expected: `
				its last words
				tests took 1.2s
				0 passed, 1 failed, 0 skipped`,
		},
		{
			name:   "what is no event is printed as it is",
			events: "\n\t\t\t\tgo: downloading something\n",
			expected: `
				go: downloading something
				tests took 1.2s
				0 passed, 0 failed, 0 skipped`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r := newReport(&out)
			if err := readEvents(strings.NewReader(outdent(test.events)), r); err != nil {
				t.Fatal(err)
			}
			r.close(1234 * time.Millisecond)
			got, expected := strings.TrimSpace(out.String()), strings.TrimSpace(outdent(test.expected))
			if got != expected {
				t.Errorf("printed:\n%s\nwant:\n%s", got, expected)
			}
		})
	}
}

// outdent takes the table's indentation off.
func outdent(text string) string { return strings.ReplaceAll(text, "\n\t\t\t\t", "\n") }
