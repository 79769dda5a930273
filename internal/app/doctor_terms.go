package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/explain"
)

const (
	gapNoticed = 200 * time.Millisecond // a planned handover is shorter
	gapsShown  = 4
)

// leadership looks for recent gaps without a leader, even if the shard has one now: slots in a gap were
// late, skipped or missed.
func (d *doctor) leadership(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	now := store.Now()
	terms, err := store.ListTerms(ctx, schedule.TermFilter{Limit: rowsListed, Now: now})
	if err != nil {
		d.unread("leadership", err)
		return
	}
	gaps := endedGaps(terms, now)
	if len(gaps) == 0 {
		d.ok("leadership", "no gap in the last 15 minutes")
		return
	}
	for i := range gaps[:min(len(gaps), gapsShown)] {
		d.warn("leadership", gaps[i].String(), "slots of that time are late, skipped or missed; `carillon worker terms` shows the terms and the leader's error")
	}
	if more := len(gaps) - gapsShown; more > 0 {
		d.warn("leadership", fmt.Sprintf("%d more gaps in the last 15 minutes", more), "`carillon worker terms` lists them")
	}
}

// endedGaps returns the gaps between terms (newest first) that ended within lookback. A shard without a
// leader now is a separate finding.
func endedGaps(terms []schedule.LeaderTerm, now time.Time) (gaps []explain.Gap) {
	byShard := make(map[int][]schedule.LeaderTerm)
	for _, t := range slices.Backward(terms) {
		byShard[t.Shard] = append(byShard[t.Shard], t)
	}
	for _, of := range byShard {
		for _, g := range explain.Gaps(of, now) {
			if !g.Until.IsZero() && now.Sub(g.Until) <= lookback && g.Until.Sub(g.From) >= gapNoticed {
				gaps = append(gaps, g)
			}
		}
	}
	slices.SortFunc(gaps, func(a, b explain.Gap) int { return b.Until.Compare(a.Until) })
	return gaps
}
