package console

import (
	"slices"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// workersView is who plans and fires.
type workersView struct {
	Shards  uint32
	Leaders []leaderRow
	Workers []workerRow
	Others  []processRow // without the worker role
	Terms   []termRow
	// Versions that run; more than one during a rolling upgrade.
	Versions []string
}

type processRow struct {
	*carillonv1.Process
	Started, Seen moment
	Silent        bool // longer than a process that lives would be
}

// termRow is a leadership term, with the gap without a leader before it.
type termRow struct {
	*carillonv1.LeaderTerm
	Started, Ended, Renewed moment
	Gap                     string // empty: none that is known
}

// termsShown is how many of the newest terms the page shows.
const termsShown = 20

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
	if err := c.addProcesses(v, &view); err != nil {
		return page{}, err
	}
	if err := c.addTerms(v, &view); err != nil {
		return page{}, err
	}
	return page{name: "workers", title: "Workers", view: view}, nil
}

func (c *Console) addProcesses(v *visit, view *workersView) error {
	resp, err := c.workers.ListProcesses(v.Context(), &carillonv1.ListProcessesRequest{})
	for _, p := range resp.GetProcesses() {
		if !slices.Contains(view.Versions, p.GetVersion()) {
			view.Versions = append(view.Versions, p.GetVersion())
		}
		if !slices.ContainsFunc(view.Workers, func(w workerRow) bool { return w.GetWorkerId() == p.GetProcessId() }) {
			row := processRow{Process: p, Started: v.at(p.GetStartedAt()), Seen: v.at(p.GetSeenAt())}
			row.Silent = v.now.Sub(row.Seen.Instant) > lateGrace
			view.Others = append(view.Others, row)
		}
	}
	slices.Sort(view.Versions)
	return err
}

func (c *Console) addTerms(v *visit, view *workersView) error {
	resp, err := c.workers.ListLeaderTerms(v.Context(), &carillonv1.ListLeaderTermsRequest{PageSize: 4 * termsShown})
	terms := resp.GetTerms()
	for i, t := range terms[:min(termsShown, len(terms))] {
		row := termRow{LeaderTerm: t, Started: v.at(t.GetStartedAt()), Ended: v.at(t.GetEndedAt()), Renewed: v.at(t.GetRenewedAt())}
		before := slices.IndexFunc(terms[i+1:], func(o *carillonv1.LeaderTerm) bool { return o.GetShard() == t.GetShard() })
		if before >= 0 {
			if o := terms[i+1+before]; o.GetEndedAt() != nil && o.GetEndReason() != string(schedule.EndUnknown) {
				row.Gap = describe.Span(max(t.GetStartedAt().AsTime().Sub(o.GetEndedAt().AsTime()), 0))
			}
		}
		view.Terms = append(view.Terms, row)
	}
	return err
}

// Why is why the term ended, in words.
func (t termRow) Why() string { return schedule.EndReason(t.GetEndReason()).Words() }

// Leaderless counts the shards without a leader.
func (w workersView) Leaderless() (n int) {
	for _, l := range w.Leaders {
		if l.GetExpired() || l.GetWorkerId() == "" {
			n++
		}
	}
	return n
}
