package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// seen is what the executor has heard so far.
type seen struct {
	First  time.Time           `json:"first"`
	Newest map[int64]time.Time `json:"newest"` // by epoch
}

func (s *site) seen() (now seen, err error) {
	answer, err := probe.Get("http://" + s.oracle.httpAddr + "/seen")
	if err != nil {
		return seen{}, err
	}
	defer answer.Body.Close()
	return now, json.NewDecoder(answer.Body).Decode(&now)
}

// flowBound is how long slots may stay away after any fault before the rig
// gives the dose up.
const flowBound = 60 * time.Second

// flows waits until a slot of each of these shards was launched after an
// instant, under a newer epoch.
func (s *site) flows(ctx context.Context, after time.Time, epoch int64, shards []int) (time.Time, error) {
	var now seen
	err := within(ctx, flowBound, "a slot is launched", func() (err error) {
		if now, err = s.seen(); err != nil {
			return err
		}
		if !now.First.After(after) {
			return fmt.Errorf("the last one came at %s; want one after %s", now.First, after)
		}
		newer, err := s.epochsAfter(ctx, epoch)
		if err != nil {
			return err
		}
		for _, shard := range shards {
			flowing := func(epoch int64) bool { return now.Newest[epoch].After(after) }
			if !slices.ContainsFunc(newer[shard], flowing) {
				return fmt.Errorf("the last one came at %s; want one of shard %d after %s, past epoch %d", now.First, shard, after, epoch)
			}
		}
		return nil
	})
	return now.First, err
}

// epochsAfter are the epochs of each shard that are greater than one.
func (s *site) epochsAfter(ctx context.Context, epoch int64) (map[int][]int64, error) {
	db, err := s.open()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, fmt.Sprintf(`SELECT shard, epoch FROM chaos_terms WHERE epoch > %d`, epoch))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	newer := make(map[int][]int64)
	for rows.Next() {
		var shard int
		var epoch int64
		if err := rows.Scan(&shard, &epoch); err != nil {
			return nil, err
		}
		newer[shard] = append(newer[shard], epoch)
	}
	return newer, rows.Err()
}

func (s *site) allShards() []int {
	all := make([]int, s.dose.shards)
	for i := range all {
		all[i] = i
	}
	return all
}

// leadership is who leads a shard, by the database.
type leadership struct {
	worker *child
	shards []int // all that the worker leads
	newest int64 // the greatest epoch of all shards
}

// leader is who leads the shard that a pick falls on.
func (s *site) leader(ctx context.Context, pick int) (found leadership, err error) {
	db, err := s.open()
	if err != nil {
		return found, err
	}
	defer db.Close()
	writers := make([]string, s.dose.shards)
	err = within(ctx, startBound, "somebody leads every shard", func() error {
		for shard := range writers {
			var epoch int64
			err := db.QueryRowContext(ctx, fmt.Sprintf(`SELECT writer, epoch FROM chaos_terms WHERE shard = %d ORDER BY seq DESC LIMIT 1`, shard)).
				Scan(&writers[shard], &epoch)
			if err != nil {
				return err
			}
			found.newest = max(found.newest, epoch)
		}
		return nil
	})
	if err != nil {
		return found, err
	}
	name := writers[pick%len(writers)]
	at := slices.IndexFunc(s.workers, func(c *child) bool { return c.name == name })
	if at < 0 {
		return found, fmt.Errorf("%q leads, and is none of the workers", name)
	}
	found.worker = s.workers[at]
	for shard, writer := range writers {
		if writer == name {
			found.shards = append(found.shards, shard)
		}
	}
	return found, nil
}
