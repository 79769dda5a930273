package main

import (
	"fmt"
	"strings"
	"time"
)

// endPackage prints and counts a package. One that passed or has no tests is
// worth its closing line only.
func (r *report) endPackage(e event) {
	p := r.pkg(e.Package)
	delete(r.packages, e.Package)
	failed := e.Action == "fail"
	r.count(e.Package, p, failed)
	if failed {
		r.print(r.builds[e.FailedBuild])
	}
	for _, l := range p.lines {
		switch {
		case failed && p.explainsFailure(l), !failed && isClosingLine(l):
			r.print(l.text)
		}
	}
}

// isClosingLine tells whether go test ends a package with the line.
func isClosingLine(l line) bool {
	return l.test == "" && (strings.HasPrefix(l.text, "ok  \t") || strings.HasPrefix(l.text, "?   \t"))
}

// explainsFailure keeps what was printed by the package itself (a panic, a
// race, TestMain) and by tests that failed or never ended.
func (p *testPackage) explainsFailure(l line) bool {
	if isProgress(l.text) {
		return false
	}
	t := p.tests[l.test]
	return t == nil || t.result == "" || t.result == "fail"
}

// isProgress tells whether the line only says which test is running.
func isProgress(text string) bool {
	for _, word := range []string{"RUN", "PAUSE", "CONT", "NAME"} {
		if strings.HasPrefix(text, "=== "+word+" ") {
			return true
		}
	}
	return false
}

// reason returns what a test said when it skipped itself.
func (p *testPackage) reason(name string) string {
	var said []string
	for _, l := range p.lines {
		text := strings.TrimSpace(l.text)
		if l.test == name && !isProgress(l.text) && !strings.HasPrefix(text, "--- SKIP") {
			said = append(said, text)
		}
	}
	reason := strings.Join(said, " ")
	// "file_test.go:12: reason": the place differs where the reason does not.
	if place, rest, found := strings.Cut(reason, ": "); found && strings.Contains(place, ".go:") {
		reason = rest
	}
	if reason == "" {
		return "(no reason given)"
	}
	return reason
}

// skips are the skipped tests by their reason, in the order first met.
type skips struct {
	reasons []string
	tests   map[string][]string
}

func (s *skips) add(reason, test string) {
	if s.tests == nil {
		s.tests = map[string][]string{}
	}
	if s.tests[reason] == nil {
		s.reasons = append(s.reasons, reason)
	}
	s.tests[reason] = append(s.tests[reason], test)
}

// close prints what is left to say. The counts are the last line: CI reads it.
func (r *report) close(took time.Duration) {
	// go test died: what it had not ended is printed as failed.
	for path := range r.packages {
		r.endPackage(event{Action: "fail", Package: path})
	}
	for _, reason := range r.skips.reasons {
		tests := r.skips.tests[reason]
		r.print(fmt.Sprintf("skipped %d: %s (%s)\n", len(tests), reason, firstFew(tests)))
	}
	r.print(fmt.Sprintf("tests took %v\n", took.Round(100*time.Millisecond)))
	r.print(fmt.Sprintf("%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped))
}

func firstFew(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
