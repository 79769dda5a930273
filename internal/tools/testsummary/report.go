package main

import (
	"io"
	"path"
	"strings"
)

// An event is one line of go test -json (see `go doc test2json`).
type event struct {
	Action      string
	Package     string
	ImportPath  string // instead of Package, in the events of a build
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// A report prints events and counts what they tell.
type report struct {
	out      io.Writer
	packages map[string]*testPackage
	builds   map[string]string // what the compiler said, by import path

	passed, failed, skipped int
	skips                   skips
}

// A testPackage is a package whose tests are running.
type testPackage struct {
	lines []line
	tests map[string]*test
	order []string
}

// A line is a line of output, of a test or (with no test) of the package.
type line struct {
	test, text string
}

type test struct {
	result        string // "" while it runs: what a panic or a timeout leaves behind
	hasSubtests   bool
	subtestFailed bool
}

func newReport(out io.Writer) *report {
	return &report{out: out, packages: map[string]*testPackage{}, builds: map[string]string{}}
}

func (r *report) print(text string) { _, _ = io.WriteString(r.out, text) }

func (r *report) add(e event) {
	switch {
	case e.Action == "build-output":
		r.builds[e.ImportPath] += e.Output
	case e.Package == "":
		// The end of a build: the package's own event follows.
	case e.Action == "output":
		p := r.pkg(e.Package)
		p.lines = append(p.lines, line{e.Test, e.Output})
	case e.Action == "run":
		r.pkg(e.Package).begin(e.Test)
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		// start, pause, cont, bench, attr: nothing to show.
	case e.Test != "":
		r.pkg(e.Package).end(e.Test, e.Action)
	default:
		r.endPackage(e)
	}
}

func (r *report) pkg(path string) *testPackage {
	p, ok := r.packages[path]
	if !ok {
		p = &testPackage{tests: map[string]*test{}}
		r.packages[path] = p
	}
	return p
}

func (p *testPackage) begin(name string) {
	if p.tests[name] != nil {
		return
	}
	p.tests[name] = &test{}
	p.order = append(p.order, name)
	if parent := p.parent(name); parent != nil {
		parent.hasSubtests = true
	}
}

func (p *testPackage) end(name, result string) {
	p.begin(name)
	p.tests[name].result = result
	if result == "fail" {
		if parent := p.parent(name); parent != nil {
			parent.subtestFailed = true
		}
	}
}

// parent returns the test that started the subtest, nil for none. A subtest's
// own name may hold a slash, so the nearest name that is a test counts.
func (p *testPackage) parent(name string) *test {
	for {
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return nil
		}
		name = name[:i]
		if found := p.tests[name]; found != nil {
			return found
		}
	}
}

// count adds the results of a package that has ended.
func (r *report) count(importPath string, p *testPackage, packageFailed bool) {
	before := r.failed
	for _, name := range p.order {
		switch t := p.tests[name]; {
		case t.result == "fail" && !t.subtestFailed, t.result == "":
			r.failed++
		case t.hasSubtests:
			// Its subtests are counted.
		case t.result == "pass":
			r.passed++
		case t.result == "skip":
			r.skipped++
			r.skips.add(p.reason(name), path.Base(importPath)+"."+name)
		}
	}
	if packageFailed && r.failed == before {
		r.failed++
	}
}
