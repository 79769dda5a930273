package sqlite_test

import "testing"

func BenchmarkFinish(b *testing.B) {
	h := newBurst(b)
	for b.Loop() {
		b.StopTimer()
		h.plan(b)
		h.claim(b)
		h.begin(b)
		b.StartTimer()
		h.finish(b)
	}
	perRow(b)
}
