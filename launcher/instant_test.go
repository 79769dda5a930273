package launcher_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/launcher"
)

func TestOutcomesWaitForTheCallsOfTheirInstant(t *testing.T) {
	for _, tc := range []struct {
		name  string
		calls int
		due   time.Duration // from now
		begin time.Duration // after which they begin
		waits time.Duration
	}{
		{name: "until they have begun", calls: launcher.Crowd, begin: 30 * time.Millisecond, waits: 30 * time.Millisecond},
		{name: "not for long", calls: launcher.Crowd, begin: time.Minute, waits: launcher.HoldFor},
		{name: "not for a few", calls: launcher.Crowd - 1, begin: time.Minute},
		{name: "not for those of the next second", calls: 10 * launcher.Crowd, due: time.Second, begin: time.Minute},
		{name: "not for those that have been late for long", calls: 10 * launcher.Crowd, due: -time.Second, begin: time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				due := began.Add(tc.due)
				n := launcher.NewInstants(time.Now)
				for range tc.calls {
					n.Expect(due)
				}
				time.AfterFunc(tc.begin, func() {
					for range tc.calls {
						n.Begun(due)
					}
				})
				n.Pass()
				if took := time.Since(began); took < tc.waits || took > tc.waits+5*time.Millisecond {
					t.Errorf("outcomes wait for %s, want %s", took, tc.waits)
				}
			})
		})
	}
}
