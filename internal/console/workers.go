package console

import (
	"slices"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// workersView is who plans and fires.
type workersView struct {
	Shards  uint32
	Leaders []leaderRow
	Workers []workerRow
}

type workerRow struct {
	*carillonv1.Worker
	Started, Seen moment
	Silent        bool // longer than a worker that lives would be
}

func (c *Console) showWorkers(v *visit) (page, error) {
	resp, err := c.workers.ListWorkers(v.Context(), &carillonv1.ListWorkersRequest{})
	if err != nil {
		return page{}, err
	}
	view := workersView{Shards: resp.GetShards(), Leaders: v.leaders(resp)}
	for _, w := range resp.GetWorkers() {
		row := workerRow{Worker: w, Started: v.at(w.GetStartedAt()), Seen: v.at(w.GetSeenAt())}
		row.Silent = v.now.Sub(row.Seen.Instant) > lateGrace
		view.Workers = append(view.Workers, row)
	}
	slices.SortStableFunc(view.Workers, func(a, b workerRow) int { return len(b.GetLeads()) - len(a.GetLeads()) })
	return page{name: "workers", title: "Workers", view: view}, nil
}

// Trouble counts the shards that nobody leads.
func (w workersView) Trouble() (n int) {
	for _, l := range w.Leaders {
		if l.GetExpired() || l.GetWorkerId() == "" {
			n++
		}
	}
	return n
}
