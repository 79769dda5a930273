package schedule_test

import (
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

func TestShardsShareAllBuckets(t *testing.T) {
	for shards := range schedule.MaxShards + 1 {
		owners := make(map[int]int)
		least, most := schedule.Buckets, 0
		for shard := range max(shards, 1) {
			first, last := schedule.Term{Shard: shard, Shards: shards}.Buckets()
			for b := first; b <= last; b++ {
				owners[b]++
			}
			least, most = min(least, last-first+1), max(most, last-first+1)
		}
		for b := range schedule.Buckets {
			if owners[b] != 1 {
				t.Fatalf("with %d shards, bucket %d is in %d of them", shards, b, owners[b])
			}
		}
		if len(owners) != schedule.Buckets || most-least > 1 {
			t.Errorf("%d shards have %d to %d buckets of %d", shards, least, most, len(owners))
		}
	}
}
