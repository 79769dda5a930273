package explain

import "github.com/carillon/carillon/internal/schedule"

// over is for a run that has ended.
func (x *runText) over() {
	x.Verdict = map[schedule.Status]Verdict{
		schedule.StatusSuccess: VerdictRan, schedule.StatusFailed: VerdictFailed, schedule.StatusSkipped: VerdictSkipped, schedule.StatusCancelled: VerdictCancelled,
	}[x.Run.Status]
	x.say("%s %s", x.subject(), x.outcome())
	switch schedule.Reason(x.Why) {
	case schedule.ReasonDeleted:
		what := "schedule"
		if x.Run.Queue.In() {
			what = "queue"
		}
		x.say("Its %s was deleted", what)
	case schedule.ReasonGrantExpired, schedule.ReasonGrantRevoked, schedule.ReasonGrantDenied:
		x.say("Its execution grant does not allow it: %s", x.Detail)
	case schedule.ReasonOverlap, schedule.ReasonQueueFull, schedule.ReasonMissed, schedule.ReasonCoalesced, schedule.ReasonPaused:
		x.say("The reason is %s", x.Why)
	default:
		x.ended()
	}
	if x.Run.IsDead() && x.Batch == nil { // a run of a consumer is not retried
		x.say("It is dead: `carillon run retry %s` runs it again", x.Run.Key)
	}
}
