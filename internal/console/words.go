package console

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/wording"
)

// reasons are what the words of schedule.Reasons mean to a reader.
var reasons = map[schedule.Reason]string{
	schedule.ReasonOverlap:           "A run of the same overlap key was still in flight.",
	schedule.ReasonMissed:            "It was first judged later than the misfire grace, and its catch-up policy does not make it up.",
	schedule.ReasonQueueFull:         "As many slots as max_queued allows were waiting already.",
	schedule.ReasonCoalesced:         "A newer slot took its place.",
	schedule.ReasonPaused:            "The schedule was paused when it fell due.",
	schedule.ReasonDeleted:           "The schedule was deleted.",
	schedule.ReasonGrantExpired:      "The grant that it runs on had expired.",
	schedule.ReasonGrantRevoked:      "The grant that it runs on was revoked.",
	schedule.ReasonGrantDenied:       "The grant that it names does not cover the workflow, or there is none.",
	schedule.ReasonLaunchRefused:     "The executor refused it for good.",
	schedule.ReasonLaunchUnavailable: "No request could be delivered to the executor in time.",
	schedule.ReasonWorkflowNotFound:  "The workflow store holds no such version that the owner may run.",
	schedule.ReasonWorkflowFailed:    "The executor reported that the workflow failed.",
	schedule.ReasonTimeout:           "There was no sign of life within the run timeout.",
	schedule.ReasonLost:              "Whether the executor took it never became known.",
	schedule.ReasonReplaced:          "A newer slot replaced it.",
	schedule.ReasonCancelled:         "Somebody asked for it to be cancelled.",
	schedule.ReasonKeyConflict:       "Its key was used before for another request.",
	schedule.ReasonAccepted:          "The executor took it; it does not report how runs end.",
}

func reasonWords(reason string) string { return reasons[schedule.Reason(reason)] }

// rule is what a schedule fires by.
type rule struct {
	cron     string
	interval uint32
	once     moment
	words    string
}

// Words are the rule in words, as explain and the CLI have them.
func (r rule) Words() string { return r.words }

// spec is what a schedule, saved or not, says of when it fires.
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
	return rule{s.GetCronExpr(), s.GetIntervalMs(), v.in(s.GetOnceAt(), s.GetTimezone()), wording.Spec(&d)}
}

// instantOf is the zero time where there is none.
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
	return "by hand only"
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
