package alert

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert/expect"
	"github.com/carillon/carillon/registrar/notify"
)

const (
	groupAtOnce = 1000 // notices of one transaction

	// How soon a registrar is asked again for a target that this one does not have:
	// another one may have a newer NOTIFY_FILE.
	targetLook = time.Minute

	// An incident takes no more alerts when it is this old, or Grouping.Longest if that is
	// more. Without this limit an incident that some alert joins every few minutes would
	// never end, and each message about it reads all its alerts.
	longestIncident = 6 * time.Hour
)

// Group writes the messages to people that are due: one for all alerts of an
// incident.
func (w *Watch) Group(ctx context.Context) error {
	for {
		routes, now, told := w.routes(), w.now(), false
		pauses := routes.Grouping()
		grouping, cancel := context.WithTimeout(ctx, evaluateTimeout)
		more, err := w.outbox.GroupAlerts(grouping, schedule.AlertGrouping{
			Now: now, JoinedSince: now.Add(-pauses.Longest()), StartedSince: now.Add(-max(longestIncident, pauses.Longest())),
			Interval: pauses.Interval, Limit: groupAtOnce,
		},
			func(g schedule.AlertGroup, payload func(string) (string, error)) (schedule.GroupVerdict, error) {
				v, err := w.group(ctx, routes, &g, payload, now)
				told = told || v.Delivery != nil
				return v, err
			})
		cancel()
		if err != nil {
			return err
		}
		if told {
			w.Wake()
		}
		if !more {
			return nil
		}
	}
}

// group decides about one incident.
func (w *Watch) group(ctx context.Context, routes *notify.Routes, g *schedule.AlertGroup, payload func(string) (string, error), now time.Time) (v schedule.GroupVerdict, err error) {
	what, due := routes.Grouping().Next(g)
	target := routes.Target(g.Target)
	switch {
	case what == "":
		return v, nil
	case due.After(now):
		return schedule.GroupVerdict{CheckAt: due}, nil
	case target == nil && now.Sub(due) > retryFor:
		w.log.WarnContext(ctx, "notification dropped: no registrar has its target", "target", g.Target, "alert_id", g.GroupID, "type", what)
		return schedule.GroupVerdict{Closed: true}, nil
	case target == nil:
		return schedule.GroupVerdict{CheckAt: now.Add(targetLook)}, nil
	}
	text, err := payload(example(g, what).AlertID)
	if err != nil {
		return v, err
	}
	var m notify.Message
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return v, fmt.Errorf("read the notice of alert %s: %w", example(g, what).AlertID, err)
	}
	m.Type = what
	target.Readdress(&m, g.Key)
	if sum := notify.Summarize(g); sum != nil {
		console := ""
		if w.publicURL != "" {
			console = w.publicURL + "/ui/"
		}
		m = m.Together(what, g, sum, console)
		m.Timestamp = now
	} else if m.Data.AlertID != g.GroupID {
		m.Data.IncidentID = g.GroupID
	}
	d := envelopes(routes, []string{g.Target}, m, fmt.Sprintf("%s/%s/%d", g.GroupID, what, now.UnixMicro()))[0]
	d.AlertID, d.GroupKey, d.CreatedAt = g.GroupID, "", now
	return schedule.GroupVerdict{Delivery: &d, Closed: what == expect.NoticeRecovered}, nil
}

// example is the alert that supplies the text of a single message or the error of a group: the
// newest of those that the message is about.
func example(g *schedule.AlertGroup, what expect.NoticeType) *schedule.AlertNotice {
	best := &g.Notices[0]
	rank := func(n *schedule.AlertNotice) int {
		switch {
		case n.Open() != (what != expect.NoticeRecovered):
			return 0
		case n.Told:
			return 1
		}
		return 2
	}
	for i := range g.Notices {
		if n := &g.Notices[i]; rank(n) > rank(best) || rank(n) == rank(best) && n.NoticedAt.After(best.NoticedAt) {
			best = n
		}
	}
	return best
}
