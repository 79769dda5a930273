package tables

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// placeRuns gives runs their positions: at the end, or from a place on among those that wait
// with their priority. placed: they have the fair order of such a place.
func (d *Dialect) placeRuns(ctx context.Context, q Queries, runs []schedule.Run, position int) (placed bool, err error) {
	if len(runs) == 0 {
		return false, nil
	}
	if position > 0 {
		if placed, err = d.insertAt(ctx, q, runs, position); placed || err != nil {
			return placed, err
		}
	}
	return false, d.PlaceLast(ctx, q, runs)
}

// lastPositions draws positions behind all others.
func (d *Dialect) lastPositions(ctx context.Context, q Queries, n int) (positions []int64, err error) {
	var first, value int64
	err = q.Each(ctx, d.DrawPositions, []any{&value}, func(bad error) error {
		if first == 0 {
			first = value
		}
		return bad
	}, n)
	if err != nil {
		return nil, fmt.Errorf("draw positions: %w", err)
	}
	for i := range n {
		positions = append(positions, ledger.PositionKey(first+int64(i)))
	}
	return positions, nil
}

// PlaceLast gives runs positions behind all others, in their order.
func (d *Dialect) PlaceLast(ctx context.Context, q Queries, runs []schedule.Run) error {
	positions, err := d.lastPositions(ctx, q, len(runs))
	for i := range positions {
		runs[i].Queue.Position = positions[i]
	}
	return err
}

// place is a waiting run with its position.
type place struct {
	key       schedule.Key
	position  int64
	fairOrder int64
}

func places(ctx context.Context, q Queries, queueNo, priority int32, limit, offset int) ([]place, error) {
	found, err := collect(ctx, q, func(p *place) []any { return []any{&p.key, &p.position, &p.fairOrder} }, sqlPlaces, queueNo, priority, limit, offset)
	if err != nil {
		return nil, fmt.Errorf("read positions: %w", err)
	}
	return found, nil
}

// insertAt gives runs of one priority positions from a place on. placed = false: so many do
// not wait. Where the gap before the run at the place is too small, runs from there on move:
// as few as will do, and none past the last one, behind which others enter. In a fair queue they
// get the fair order of the run at the place, and only runs with that one count and move.
func (d *Dialect) insertAt(ctx context.Context, q Queries, runs []schedule.Run, position int) (placed bool, err error) {
	queueNo, priority := runs[0].Queue.No, runs[0].Queue.Priority
	var last []place
	if position > 1 {
		if last, err = places(ctx, q, queueNo, priority, 1, position-2); err != nil || len(last) == 0 {
			return false, err
		}
	}
	for moved := 0; ; moved = max(64, moved*8) {
		rest, err := places(ctx, q, queueNo, priority, moved+1, position-1)
		if err != nil || len(rest) == 0 {
			return false, err
		}
		before, order := ledger.NoPlace, rest[0].fairOrder
		if len(last) > 0 && last[0].fairOrder == order {
			before = last[0].position
		}
		rest = slices.DeleteFunc(rest, func(p place) bool { return p.fairOrder != order })
		end := rest[len(rest)-1].position
		after, all := end+1, len(rest) <= moved
		if !all {
			after, rest = end, rest[:moved]
		}
		positions, fits := ledger.Between(before, after, len(runs)+len(rest))
		if !fits && !all {
			continue
		}
		if !fits {
			if positions, err = d.lastPositions(ctx, q, len(runs)+len(rest)); err != nil {
				return false, err
			}
		}
		for i := range runs {
			runs[i].Queue.Position, runs[i].Queue.FairOrder = positions[i], order
		}
		for i, p := range rest {
			if _, err := q.Exec(ctx, sqlMovePlace, p.key, positions[len(runs)+i]); err != nil {
				return false, fmt.Errorf("move runs back: %w", err)
			}
		}
		return true, nil
	}
}
