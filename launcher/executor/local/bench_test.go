package local_test

import (
	"testing"

	"github.com/carillon/carillon/launcher/executor/local"
)

// BenchmarkRun is the price of a run: the fsyncs of its files and one process.
func BenchmarkRun(b *testing.B) {
	s := stage(b, local.Config{})
	for i := 0; b.Loop(); i++ {
		call := callOf(i, `{"steps":[{"id":"a","run":["true"]}]}`)
		s.run(b, call)
		s.end(b, call.Key)
	}
}
