package queue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// fairFlags are the flags of the turns of keys.
func fairFlags(cmd *cobra.Command, req *carillonv1.UpsertQueueRequest) {
	f := cmd.Flags()
	f.Func("fair", "`key`: keys take turns within a priority; none (default): runs start in the order in which they entered", command.Text(&req.Fair))
	f.Func("weight", "with --fair key: `KEY=TURNS` that a key has for one of another; may be repeated (default 1)", weight(&req.Weights))
	command.CompleteValues(cmd, "fair", []string{"key", "none"})
}

// completeUpsert completes the values of flags with closed sets.
func completeUpsert(cmd *cobra.Command) *cobra.Command {
	command.CompleteValues(cmd, "backpressure", []string{"queue", "run"})
	command.CompleteValues(cmd, "webhook-event", schedule.WebhookEvents)
	return cmd
}

// replaceAdded clears the lists of a definition that flags replace: a merge would add to them.
func replaceAdded(req, flagged *carillonv1.UpsertQueueRequest) {
	if len(flagged.GetWebhookEvents()) > 0 {
		req.WebhookEvents = nil
	}
	if len(flagged.GetWorkers()) > 0 {
		req.Workers = nil
	}
	if len(flagged.GetRetry().GetOn()) > 0 && req.GetRetry() != nil {
		req.Retry.On = nil
	}
	if len(flagged.GetWeights()) > 0 {
		req.Weights = nil
	}
}

// pullFlags are the flags of pull queues.
func pullFlags(cmd *cobra.Command, req *carillonv1.UpsertQueueRequest) {
	f := cmd.Flags()
	f.Func("delivery", "push (default): launchers send the runs to the executor; `pull`: workers fetch them", command.Text(&req.Delivery))
	f.StringSliceVar(&req.Workers, "workers", nil, "with --delivery pull: `SUBJECTS` that may fetch, with commas between (default: any executor)")
	f.Func("heartbeat", "with --delivery pull: `DURATION` after which the runs of a silent worker are lost (default 30s)", command.Millis(&req.HeartbeatMs))
	command.CompleteValues(cmd, "delivery", []string{"pull", "push"})
}

// fetching are the workers that have fetched runs.
func fetching(p *render.Page, q *carillonv1.Queue) string {
	var texts []string
	for _, w := range q.GetFetching() {
		text := fmt.Sprintf("%s: %d of %s, seen %s", w.GetWorkerId(), len(w.GetRunning()), render.Count(int(w.GetSlots()), "slot"), p.When(w.GetSeenAt()))
		if w.GetSilent() {
			text += ", silent"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// weight sets the weight of a fair key from KEY=TURNS.
func weight(to *map[string]uint32) func(string) error {
	return func(text string) error {
		at := strings.LastIndex(text, "=")
		if at < 1 {
			return fmt.Errorf("%q is not KEY=TURNS", text)
		}
		turns, err := strconv.ParseUint(text[at+1:], 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not a number of turns", text[at+1:])
		}
		if *to == nil {
			*to = make(map[string]uint32)
		}
		(*to)[text[:at]] = uint32(turns)
		return nil
	}
}

// fairness is how the keys of a queue take turns; "": they do not.
func fairness(q *carillonv1.Queue) string {
	if q.GetFair() != "key" {
		return ""
	}
	return describe.Turns(q.GetWeights())
}

// shares are the keys with runs that wait.
func shares(q *carillonv1.Queue) string {
	var texts []string
	for _, s := range q.GetShares() {
		texts = append(texts, fmt.Sprintf("%s: %s, the first at %d", s.GetFairKey(), render.Count(int(s.GetWaiting()), "waiting run"), s.GetFirst()))
	}
	return strings.Join(texts, "; ")
}
