package leader_test

import (
	"slices"
	"testing"
	"time"
)

// sharesAre waits until the processes lead so many shards each, in the order in
// which they started, and holds them to it for a while.
func (t *town) sharesAre(within time.Duration, why string, want ...int64) {
	t.Helper()
	are := func() bool {
		led := make([]int64, len(t.all))
		for i, p := range t.all {
			led[i] = p.led.Load()
		}
		return slices.Equal(led, want)
	}
	began := time.Now()
	for !are() {
		if time.Since(began) > within {
			t.Fatalf("%s: after %s: %s, want %v", why, within, t.led(), want)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%s: %s after %s, longest without a leader %s", why, t.led(), time.Since(began), t.longestGap())
	for range 200 {
		time.Sleep(100 * time.Millisecond)
		if !are() {
			t.Fatalf("%s: it was so and is no more: %s", why, t.led())
		}
	}
}

func (t *town) noGap() {
	t.Helper()
	if gap := t.longestGap(); gap > time.Second {
		t.Errorf("a shard had no leader for %s, and each was handed over", gap)
	}
}

func TestAnUnhealthyLeaderHandsItsOneShardOverToAHealthyFollower(t *testing.T) {
	inTown(t, 1, func(town *town) {
		first := town.start(false)
		town.sharesAre(2*time.Second, "one starts", 1)
		second := town.start(false)
		town.sharesAre(time.Second, "another one follows", 1, 0)
		first.unhealthy.Store(true)
		town.sharesAre(2*time.Second, "the first is unhealthy", 0, 1)
		first.unhealthy.Store(false)
		town.sharesAre(time.Second, "it is healthy again: one shard stays where it is", 0, 1)
		second.unhealthy.Store(true)
		town.sharesAre(2*time.Second, "the second is unhealthy", 1, 0)
		first.unhealthy.Store(true)
		town.sharesAre(time.Second, "nobody is healthy: the leader stays", 1, 0)
		second.unhealthy.Store(false)
		town.sharesAre(3*time.Second, "the second is healthy again", 0, 1)
		town.end(second)
		town.sharesAre(2*time.Second, "the healthy one ends: the other plans on", 1, 0)
		town.noGap()
	})
}

func TestWhereNobodyIsHealthyTheShardsAreSharedOutAllTheSame(t *testing.T) {
	inTown(t, 4, func(town *town) {
		for range 2 {
			town.startUnhealthy()
		}
		town.sharesAre(6*time.Second, "both are unhealthy", 2, 2)
		town.noGap()
	})
}

func TestAnUnhealthyWorkerHasNoShareUntilItIsHealthyAgain(t *testing.T) {
	inTown(t, 6, func(town *town) {
		first, second := town.start(false), town.start(false)
		town.sharesAre(6*time.Second, "two start", 3, 3)
		first.unhealthy.Store(true)
		town.sharesAre(5*time.Second, "the first is unhealthy", 0, 6)
		third := town.start(false)
		town.sharesAre(6*time.Second, "a third one joins", 0, 3, 3)
		first.unhealthy.Store(false)
		town.sharesAre(10*time.Second, "the first is healthy again", 2, 2, 2)
		second.unhealthy.Store(true)
		third.unhealthy.Store(true)
		town.sharesAre(8*time.Second, "only the first is healthy", 6, 0, 0)
		town.noGap()
	})
}

func TestAHealthyWorkerThatCannotLeadIsLeftAloneByAnUnhealthyOne(t *testing.T) {
	inTown(t, 1, func(town *town) {
		unhealthy := town.start(false)
		town.sharesAre(2*time.Second, "one starts", 1)
		ill := town.start(true)
		unhealthy.unhealthy.Store(true)
		began := time.Now()
		var without time.Duration
		for time.Since(began) < 3*time.Minute {
			time.Sleep(100 * time.Millisecond)
			without += time.Duration(1-unhealthy.led.Load()) * 100 * time.Millisecond
		}
		t.Logf("the shard was without a leader for %s in sum, in three minutes", without)
		if without > 6*time.Second {
			t.Errorf("the shard was without a leader for %s in three minutes, for a worker that cannot lead", without)
		}
		ill.ill.Store(false)
		town.sharesAre(6*time.Minute, "it can lead again", 0, 1)
	})
}

func TestAWorkerThatIsUnhealthyFromTheStartTakesNoShare(t *testing.T) {
	inTown(t, 4, func(town *town) {
		town.start(false)
		town.sharesAre(2*time.Second, "one starts", 4)
		unhealthy := town.startUnhealthy()
		town.sharesAre(time.Second, "an unhealthy one joins", 4, 0)
		if unhealthy.terms.Load() > 0 {
			t.Errorf("the unhealthy one won %d terms", unhealthy.terms.Load())
		}
	})
}
