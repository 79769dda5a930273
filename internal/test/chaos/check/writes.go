package check

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// writes is I7, I8 and I9, from the witness triggers of the database: status only moves
// forward, a sent run is LAUNCHING before, and no worker writes a run after a newer epoch
// of its shard has begun.
func (c *checker) writes() {
	launching := make(map[string]time.Time)
	epochs := make(map[string]int64)
	for _, w := range c.Writes {
		r := c.written(w)
		switch {
		case w.After == "":
			if w.Before != "PLANNED" {
				c.violate("I7", r, "a row that was %s is deleted by %s at %s", w.Before, w.Writer, clock(w.At))
			}
			delete(epochs, w.Key)
			continue
		case w.Before != "" && rank[w.Before] == terminal && w.After != w.Before:
			c.violate("I7", r, "it had ended %s, and %s makes it %s at %s", w.Before, w.Writer, w.After, clock(w.At))
		case w.Before != "" && rank[w.After] < rank[w.Before]:
			c.violate("I7", r, "%s moves it from %s back to %s at %s", w.Writer, w.Before, w.After, clock(w.At))
		case w.Epoch < epochs[w.Key]:
			c.violate("I7", r, "%s sets its epoch from %d back to %d at %s", w.Writer, epochs[w.Key], w.Epoch, clock(w.At))
		}
		epochs[w.Key] = w.Epoch
		if w.After == "LAUNCHING" && launching[w.Key].IsZero() {
			launching[w.Key] = committed(w)
		}
		if strings.HasPrefix(w.Writer, "worker") && w.Holder != "" && w.Writer != w.Holder {
			c.violate("I9", r, "%s writes %s→%s at %s, after %s had begun epoch %d of its shard", w.Writer, w.Before, w.After, clock(w.At), w.Holder, w.Leader)
		}
	}
	if len(c.Writes) == 0 {
		return // a store without the trigger
	}
	for key, e := range c.effects {
		r, known := c.ledger[key]
		if !known {
			continue
		}
		if at := launching[key]; at.IsZero() || at.After(e.first().Add(tolerance+c.fell)) {
			c.violate("I8", r, "it was sent at %s, and LAUNCHING only at %s", clock(e.first()), clock(at))
		}
	}
}

// committed is when others could see a write.
func committed(w record.Write) time.Time { return later(w.At, w.Committed) }

// withoutMoves leaves out rows that a new partition of the history takes over from another
// one: each is inserted once more, as it is.
func withoutMoves(writes []record.Write) (out []record.Write) {
	ended := make(map[string]string)
	for _, w := range writes {
		if w.Before == "" && rank[w.After] == terminal && ended[w.Key] == w.After {
			continue
		}
		if rank[w.After] == terminal {
			ended[w.Key] = w.After
		}
		out = append(out, w)
	}
	return out
}

func (c *checker) written(w record.Write) record.Run {
	if r, known := c.ledger[w.Key]; known {
		return r
	}
	return record.Run{Key: w.Key, RunAt: w.At}
}

// shardOf is the shard of a bucket: the ranges are as even as whole numbers are.
func (c *checker) shardOf(bucket int) int { return bucket * max(1, c.Settings.Shards) / buckets }

// buckets is the documented number of hash buckets.
const buckets = 1024

// bucketOf is the bucket of a qualified overlap key.
func bucketOf(overlapKey string) int {
	sum := sha256.Sum256([]byte(overlapKey))
	return (int(sum[0])<<8 | int(sum[1])) % buckets
}

// terms is the rest of I7 and I9: epochs strictly increase, over all shards, no
// two have one, and a run is claimed only under an epoch of its own shard.
func (c *checker) terms() {
	greatest := int64(0)
	last := make(map[int]string) // who led each shard
	shards := make(map[int64]int)
	c.report.Counts.Terms = len(c.Terms)
	for _, t := range c.Terms {
		if t.Epoch <= greatest {
			c.violate("I7", record.Run{RunAt: t.At}, "the epoch goes from %d to %d, by %s for shard %d", greatest, t.Epoch, t.Writer, t.Shard)
		}
		greatest = max(greatest, t.Epoch)
		shards[t.Epoch] = t.Shard
		if before, led := last[t.Shard]; led && before != t.Writer {
			c.report.Counts.Hands++
			c.report.Hands[t.Shard]++
		}
		last[t.Shard] = t.Writer
	}
	for _, r := range c.Runs {
		if want := bucketOf(r.OverlapKey); r.Bucket != want && len(c.Revised) > 0 {
			c.violate("I9", r, "it is in bucket %d; that of its overlap key is %d", r.Bucket, want)
		}
		if shard, known := shards[r.Epoch]; r.Epoch != 0 && (!known || shard != c.shardOf(r.Bucket)) {
			c.violate("I9", r, "it is of shard %d, and its epoch %d is of shard %d", c.shardOf(r.Bucket), r.Epoch, shard)
		}
	}
}

// stuckTransaction is after how long Postgres ends the transaction of a leader
// that hangs in it; a takeover waits for that.
const stuckTransaction = 10 * time.Second

// liveness is I12: during any fault the executor soon gets new calls. The time during
// which nothing can be launched does not count.
func (c *checker) liveness() {
	bound := max(c.Settings.LeaderTTL, stuckTransaction) + 3*time.Second + c.rose + c.stall
	newest := make(map[int]time.Time) // by shard
	for _, line := range c.Executor {
		if line.Kind != record.Call || line.Number > 1 || line.At.After(c.stopped) {
			continue
		}
		shard := c.shardOf(c.ledger[line.Key].Bucket)
		last := newest[shard]
		if gap := line.At.Sub(last) - c.away(last, line.At); !last.IsZero() && gap > bound {
			c.report.Violations = append(c.report.Violations, Violation{
				Invariant: "I12", At: line.At, ScheduleID: line.ScheduleID, Key: line.Key,
				Text: fmt.Sprintf("nothing of shard %d was launched from %s until %s", shard, clock(last), clock(line.At)),
			})
		}
		newest[shard] = later(last, line.At)
	}
}

// away returns how long, within a period, a fault lasted that no process can work around.
func (c *checker) away(from, until time.Time) time.Duration {
	total := time.Duration(0)
	for _, f := range c.Faults {
		if f.Ended.IsZero() || f.Kind == record.Clock || f.Leader {
			continue
		}
		begin, end := later(from, f.Began), until
		if f.Ended.Before(end) {
			end = f.Ended
		}
		total += max(0, end.Sub(begin))
	}
	return total
}

// hygiene is I14 as far as logs show it.
func (c *checker) hygiene() {
	for _, line := range c.Alarms {
		c.report.Violations = append(c.report.Violations, Violation{Invariant: "I14", Text: "logged what must never be logged: " + line})
	}
}
