package storetest

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// headReader is a store that can say how many waiting runs an admission reads. The memory reads all.
type headReader interface {
	HeadsRead(ctx context.Context, req *schedule.AdmitRequest) (runs int, err error)
}

func limitReads(r *rig) {
	store, ok := r.Store.(headReader)
	if !ok {
		r.Skip("this store reads every waiting run")
	}
	gpu := r.putLimit("gpu", 1)
	j := r.jobs("q", maxInFlight(100))
	for i := range 40 {
		j.putUsing([]string{fmt.Sprint("gpu", i)}, "gpu")
	}
	reads := func(free int) int {
		req := j.admitRequest(free)
		n, err := store.HeadsRead(r.ctx, &req)
		r.ok(err, "read an admission")
		return n
	}
	equal(r, "runs that are read for a limit of one", reads(50), 1)
	j.admits(50, "gpu0")
	equal(r, "runs that are read behind a full limit", reads(50), 0)
	j.put("a", "b", "c")
	equal(r, "runs that are read of a limit set and a full one", reads(50), 3)
	equal(r, "runs that are read with one free call", reads(1), 1)
	r.putLimit("gpu", 4)
	equal(r, "runs that are read once three more may use the limit", reads(50), 3+4)
	j.admits(50, "gpu1 gpu2 gpu3 a b c")
	r.used(gpu, 4)
	q := j.queue
	q.PromoteAfterMS = 1000
	r.putQueue(q)
	equal(r, "runs that are read behind it in a queue with promotion", reads(50), 0)
}
