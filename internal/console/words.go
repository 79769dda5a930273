package console

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// reasons explain schedule.Reasons to a reader.
var reasons = map[schedule.Reason]string{
	schedule.ReasonOverlap:           "A run of the same overlap key was still in flight.",
	schedule.ReasonMissed:            "It was late by more than the misfire grace, and its catch-up policy does not run it later.",
	schedule.ReasonQueueFull:         "The queue already had max_queued slots, or its dispatch queue max_waiting runs.",
	schedule.ReasonQueueClosed:       "Its dispatch queue was closed.",
	schedule.ReasonExpired:           "It waited in its dispatch queue for expires_ms.",
	schedule.ReasonDeadline:          "It was not over max_run_ms after its acceptance. The executor was asked to cancel it.",
	schedule.ReasonQueueNotFound:     "There was no dispatch queue of this id that its owner may use.",
	schedule.ReasonCoalesced:         "A newer slot took its place.",
	schedule.ReasonPaused:            "The schedule was paused when it fell due.",
	schedule.ReasonDeleted:           "The schedule or the queue was deleted.",
	schedule.ReasonGrantExpired:      "Its execution grant had expired.",
	schedule.ReasonGrantRevoked:      "Its execution grant was revoked.",
	schedule.ReasonGrantDenied:       "Its execution grant does not exist or does not cover the workflow.",
	schedule.ReasonLaunchRefused:     "The executor rejected it permanently.",
	schedule.ReasonLaunchUnavailable: "The executor could not be reached in time.",
	schedule.ReasonWorkflowNotFound:  "The workflow store has no such version that the owner may run.",
	schedule.ReasonWorkflowFailed:    "The executor reported that the workflow failed.",
	schedule.ReasonTimeout:           "The executor did not report within the run timeout.",
	schedule.ReasonLost:              "It is unknown whether the executor accepted it.",
	schedule.ReasonReplaced:          "A newer slot replaced it.",
	schedule.ReasonCancelled:         "Its cancel was requested.",
	schedule.ReasonKeyConflict:       "Its idempotency key was used before for another request.",
	schedule.ReasonSnoozed:           "The executor asked to get it again later.",
	schedule.ReasonSnoozeLimit:       "The executor asked to get it again later, too often.",
	schedule.ReasonPredecessorFailed: "A member of its group before it has failed, and the group stops then.",
	schedule.ReasonInterrupted:       "A shutdown of the executor stopped it.",
	schedule.ReasonAccepted:          "The executor accepted it; it does not report how runs end.",
}

func reasonWords(reason string) string { return reasons[schedule.Reason(reason)] }

// rule is a schedule's timing rule.
type rule struct {
	cron     string
	interval uint32
	once     moment
	events   bool
	words    string
}

// Words are the rule in words, as explain and the CLI have them.
func (r rule) Words() string { return r.words }

// spec is the timing of a schedule, saved or not.
type spec interface {
	GetCronExpr() string
	GetIntervalMs() uint32
	GetOnceAt() *timestamppb.Timestamp
	GetTimezone() string
	GetJitterMs() uint32
	GetStartAt() *timestamppb.Timestamp
	GetEndAt() *timestamppb.Timestamp
}

func (v *visit) rule(s spec) rule {
	d := schedule.Definition{
		CronExpr: s.GetCronExpr(), IntervalMS: s.GetIntervalMs(), Timezone: s.GetTimezone(), JitterMS: s.GetJitterMs(),
		OnceAt: instantOf(s.GetOnceAt()), StartAt: instantOf(s.GetStartAt()), EndAt: instantOf(s.GetEndAt()),
	}
	if c, ok := s.(interface{ GetConsume() *carillonv1.Consume }); ok {
		d.Consume.Topics = c.GetConsume().GetTopics()
	}
	return rule{s.GetCronExpr(), s.GetIntervalMs(), v.in(s.GetOnceAt(), s.GetTimezone()), d.Consume.Any(), describe.Spec(&d)}
}

// instantOf is the zero time if t is nil.
func instantOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// Short is the rule as it was written.
func (r rule) Short() string {
	switch {
	case r.cron != "":
		return r.cron
	case r.interval != 0:
		return "every " + everyWords(r.interval)
	case r.once.Is():
		return "once, " + r.once.Full()
	}
	if r.events {
		return r.words
	}
	return "manual only"
}

// everyWords is an interval without rounding: 90 s is not "about a minute".
func everyWords(intervalMS uint32) string {
	d := time.Duration(intervalMS) * time.Millisecond
	var words []string
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / unit.size; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, unit.name))
			d -= n * unit.size
		}
	}
	return strings.Join(words, " ")
}

// msWords is a length that may be zero.
func msWords(ms uint32) string {
	if ms == 0 {
		return "0"
	}
	return everyWords(ms)
}
