package main

import (
	"math"
	"time"

	"github.com/carillon/carillon/internal/test/bench/report"
)

// search finds the highest rate that holds: it doubles (or halves) until one
// rate has held and a higher has not, and then halves what lies between until it
// is a step of -factor. It ends with -budget at the latest, and says how far it
// came.
type search struct {
	o      options
	stream func(rate int) (report.Line, error)
	tried  map[int]report.Line // by rate; the better of two
	steps  int
	until  time.Time
}

func newSearch(o options, stream func(int) (report.Line, error)) *search {
	return &search{o: o, stream: stream, tried: make(map[int]report.Line), until: time.Now().Add(o.budget)}
}

// run searches for the rate under a second, and with the time that is left for
// the one that is held well.
func (s *search) run() (line report.Line, err error) {
	line = report.Line{Figures: make(map[string]float64), Settings: make(map[string]string)}
	for _, limit := range []struct {
		name string
		p99  float64
	}{{"1s", heldWithin}, {"250ms", heldWellWith}} {
		held, failed := 0, 0
		if err == nil {
			held, failed, err = s.highest(limit.p99)
		}
		if err != nil {
			held, failed = s.bounds(limit.p99)
		}
		line.Figures["rate_p99_"+limit.name] = float64(held)
		line.Figures["fails_p99_"+limit.name] = float64(failed)
		line.Figures["at_it_p99_"+limit.name+"_ms"] = s.tried[held].Figures["p99_ms"]
	}
	for _, tried := range s.tried {
		line.Settings = tried.Settings
	}
	line.Figures["rate_p99_1s_skips_aside"], line.Figures["skipped_there_%"] = s.skipsAside()
	line.Figures["steps"] = float64(s.steps)
	return line, err
}

// highest rate that holds under a limit, and the lowest that does not; 0 where
// none was found.
func (s *search) highest(limit float64) (held, failed int, err error) {
	for {
		held, failed = s.bounds(limit)
		rate := next(held, failed, s.o.ns[0], s.o.most, s.o.factor)
		if rate == 0 || s.steps > 0 && time.Now().After(s.until) {
			return held, failed, nil
		}
		if err := s.try(rate, limit); err != nil {
			return held, failed, err
		}
	}
}

// try has a rate run; one that fails by little, which a bad moment of the
// machine may have done, runs once more.
func (s *search) try(rate int, limit float64) error {
	for range 2 {
		line, err := s.stream(rate)
		if err != nil {
			return err
		}
		s.steps++
		if best, again := s.tried[rate]; !again || holds(line, limit) || !best.Wrong() && line.Figures["p99_ms"] < best.Figures["p99_ms"] {
			s.tried[rate] = line
		}
		if holds(line, limit) || line.Figures["p99_ms"] > 2*limit || time.Now().After(s.until) {
			return nil
		}
	}
	return nil
}

func holds(line report.Line, limit float64) bool {
	return !line.Wrong() && line.Figures["p99_ms"] < limit
}

// bounds are the lowest rate that failed, and the highest below it that held.
func (s *search) bounds(limit float64) (held, failed int) {
	for rate, line := range s.tried {
		if !holds(line, limit) && (failed == 0 || rate < failed) {
			failed = rate
		}
	}
	for rate, line := range s.tried {
		if holds(line, limit) && rate > held && (failed == 0 || rate < failed) {
			held = rate
		}
	}
	return held, failed
}

// next is the rate to try between one that held and one that failed; 0: they
// are near enough.
func next(held, failed, first, most int, factor float64) int {
	switch {
	case held == 0 && failed == 0:
		return min(first, most)
	case failed == 0 && held >= most, held == 0 && failed == 1:
		return 0
	case failed == 0:
		return min(2*held, most)
	case held == 0:
		return failed / 2
	}
	if float64(failed) <= factor*float64(held) {
		return 0
	}
	rate := int(math.Round(math.Sqrt(float64(held) * float64(failed))))
	if round := rate / 100 * 100; round > held {
		rate = round
	}
	if rate <= held || rate >= failed {
		return 0
	}
	return rate
}

// skipsAside is the highest rate with p99 under a second where nothing went
// wrong but that slots were skipped, since the one before was still in flight;
// and the share of those.
func (s *search) skipsAside() (rate, percent float64) {
	for n, line := range s.tried {
		slots := n * s.o.seconds
		skipped := line.Bad[skippedSlots]
		other := 0
		for name, count := range line.Bad {
			if name != skippedSlots {
				other += count
			}
		}
		if other == 0 && line.Figures["p99_ms"] < heldWithin && float64(n) > rate {
			rate, percent = float64(n), 100*float64(skipped)/float64(slots)
		}
	}
	return rate, percent
}
