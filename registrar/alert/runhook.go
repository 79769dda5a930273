package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/notify"
)

// runMessage is the body of a message about the end of a run.
type runMessage struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // of the end
	Data      struct {
		Run   json.RawMessage `json:"run,omitempty"`
		Group json.RawMessage `json:"group,omitempty"` // of group.ended, instead
	} `json:"data"`
}

// hookOf is the target of a message about a run; nil: it is about an alert, or the file no longer
// has it.
func (w *Watch) hookOf(d *schedule.AlertDelivery) *notify.RunHook {
	name, ok := schedule.WebhookName(d.Target)
	if !ok || d.RunKey.IsZero() {
		return nil
	}
	return w.runHooks().Named(name)
}

// noHookRetries are the retries of a message to a target that the file does not have: it may be on
// its way to this registrar.
const noHookRetries = 3

func (w *Watch) retriesOf(d *schedule.AlertDelivery) int {
	if h := w.hookOf(d); h != nil {
		return h.Retries
	}
	return noHookRetries
}

// attemptRun makes one attempt to send a message about the end of a run. Its body is made now: the
// run of history does not change, so it is the same at every attempt.
func (w *Watch) attemptRun(ctx context.Context, d *schedule.AlertDelivery) notify.Result {
	name, _ := schedule.WebhookName(d.Target)
	h := w.hookOf(d)
	switch {
	case h == nil:
		return notify.Result{Problem: fmt.Sprintf("WEBHOOK_TARGETS_FILE of the registrar that tried has no target %s", schedule.Quote(name))}
	case !h.Allows(d.UserID):
		return notify.Result{Final: true, Problem: fmt.Sprintf("WEBHOOK_TARGETS_FILE does not let the owner %s use the target %s", schedule.Quote(d.UserID), schedule.Quote(name))}
	case d.Disabled && d.Round == 1:
		return notify.Result{Gone: true, Problem: "the target answered 410 before: it is gone; send a message by hand once it is back"}
	}
	body, err := w.bodyOf(ctx, d)
	switch {
	case errors.Is(err, schedule.ErrNotFound):
		return notify.Result{Final: true, Problem: "the run or group is no longer in history, so that its message cannot be made"}
	case err != nil:
		return notify.Result{Problem: "cannot read the run or group: " + err.Error()}
	}
	return h.Send(ctx, notify.Outgoing{ID: d.DeliveryID, Payload: body, Now: w.now(), Client: w.client})
}

func (w *Watch) bodyOf(ctx context.Context, d *schedule.AlertDelivery) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	m := runMessage{Type: d.Type, Timestamp: d.CreatedAt}
	var err error
	if d.GroupNo != 0 {
		m.Data.Group, err = w.jobGroup(ctx, d.GroupNo)
	} else {
		m.Data.Run, err = w.run(ctx, d.RunKey)
	}
	if err != nil {
		return "", err
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return "", fmt.Errorf("write the body: %w", err)
	}
	return string(bytes.TrimSuffix(body.Bytes(), []byte("\n"))), nil
}
