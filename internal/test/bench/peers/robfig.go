package peers

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/record"
)

// KindRobfig is the kind of child that ServeRobfig is.
const KindRobfig = "robfig"

// Robfig is robfig/cron in this process: no slot outlives it.
type Robfig struct {
	log  record.Log
	cron *cron.Cron
}

// ServeRobfig runs it until the harness closes our input.
func ServeRobfig(context.Context) error {
	r := &Robfig{cron: cron.New(cron.WithLocation(time.UTC))}
	err := proc.Serve(r)
	<-r.cron.Stop().Done()
	return err
}

// Load adds an entry for each slot and starts.
func (r *Robfig) Load(work record.Work, _ *proc.None) error {
	for i := range work.N {
		r.cron.Schedule(instants(work), cron.FuncJob(func() {
			now := time.Now()
			due := work.First
			if work.Rounds > 1 { // an entry is not told for when it is called
				due = now.Truncate(time.Second)
			}
			r.log.Note(record.Call{Slot: slotOf(i, due), Due: due.UnixNano(), At: now.UnixNano()})
		}))
	}
	r.cron.Start()
	return nil
}

// Called says how often entries were called.
func (r *Robfig) Called(_ proc.None, out *int) error {
	*out = r.log.Len()
	return nil
}

// Calls is the record.
func (r *Robfig) Calls(_ proc.None, out *[]byte) error {
	*out = record.Encode(r.log.Calls())
	return nil
}
